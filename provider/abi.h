// The C ABI of ONNX Runtime as far as this provider uses it. A table of the runtime is a row of function
// pointers that only grows at its end, so an entry's number and its type are all that a call needs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilewright::provider {

// Objects of the runtime, known by their addresses alone.
namespace ort {
struct Api;
struct EpApi;
struct EditorApi;
struct Status;
struct Logger;
struct Env;
struct Session;
struct SessionOptions;
struct RunOptions;
struct MemoryInfo;
struct Value;
struct TypeInfo;
struct TensorInfo;
struct Graph;
struct Node;
struct ValueInfo;
struct Attribute;
struct Pairs;
struct HardwareDevice;
struct EpDevice;
struct Support;  // the answer to GetCapability
struct KernelContext;
struct ComputeContext;

struct ApiBase {
  const Api* (*api)(uint32_t version);  // null: the runtime is older
  const char* (*version)();
};

// The version whose tables have all entries below. The runtime reads tables of ours up to it, too.
inline constexpr uint32_t kVersion = 24;
inline constexpr const char* kRelease = "1.24";
inline constexpr size_t kApiEntries = 415;  // of that version
inline constexpr size_t kEpApiEntries = 5;

enum Code : int32_t { kFail = 1, kInvalidArgument = 2 };
enum Severity : int32_t { kInfo = 1, kWarning = 2 };
enum Kind : int32_t { kTensor = 1 };
enum Hardware : int32_t { kCpu = 0 };
enum AttributeType : int32_t {
  kInt = 1,
  kInts = 2,
  kFloat = 3,
  kFloats = 4,
  kString = 5,
  kStrings = 6,
  kSubgraph = 7,
  kTensorValue = 8
};
// TensorProto has the same numbers.
enum Element : int32_t {
  kF32 = 1,
  kU8 = 2,
  kI8 = 3,
  kU16 = 4,
  kI16 = 5,
  kI32 = 6,
  kI64 = 7,
  kText = 8,
  kBool = 9,
  kF16 = 10,
  kF64 = 11,
  kU32 = 12,
  kU64 = 13,
  kBf16 = 16
};

// --- Tables that the provider gives to the runtime -----------------------------------------------

struct ComputeInfo {
  uint32_t version;
  Status* (*create_state)(ComputeInfo*, ComputeContext*, void** state);
  Status* (*compute)(ComputeInfo*, void* state, KernelContext*);
  void (*release_state)(ComputeInfo*, void* state);
};

struct FusionOptions {
  uint32_t version;
  bool drop_constants;  // the fused node does not take constant initializers
};

struct Ep {
  uint32_t version;
  const char* (*name)(const Ep*);
  Status* (*get_capability)(Ep*, const Graph*, Support*);
  Status* (*compile)(Ep*, const Graph**, const Node** fused, size_t count, ComputeInfo** infos,
                     Node** context_nodes);
  void (*release_compute_infos)(Ep*, ComputeInfo**, size_t count);
  void* not_used[28];  // entries 5 on: null stands for the runtime's default
};

struct Factory {
  uint32_t version;
  const char* (*name)(const Factory*);
  const char* (*vendor)(const Factory*);
  Status* (*supported_devices)(Factory*, const HardwareDevice* const*, size_t count, EpDevice**,
                               size_t most, size_t* made);
  Status* (*create_ep)(Factory*, const HardwareDevice* const*, const Pairs* const*, size_t count,
                       const SessionOptions*, const Logger*, Ep**);
  void (*release_ep)(Factory*, Ep*);
  uint32_t (*vendor_id)(const Factory*);
  const char* (*own_version)(const Factory*);
  void* validate_compiled;
  Status* (*create_allocator)(Factory*, const MemoryInfo*, const Pairs*, void** allocator);
  void (*release_allocator)(Factory*, void* allocator);
  Status* (*create_data_transfer)(Factory*, void** transfer);
  bool (*is_stream_aware)(const Factory*);
  void* not_used[16];  // entries 13 on
};

// The runtime looks for entries at their numbers.
inline constexpr size_t kWord = sizeof(void*);
static_assert(offsetof(ComputeInfo, release_state) == 3 * kWord);
static_assert(offsetof(FusionOptions, drop_constants) == 4 && sizeof(FusionOptions) == 8);
static_assert(offsetof(Ep, compile) == 3 * kWord && offsetof(Ep, not_used) == 5 * kWord);
static_assert(offsetof(Factory, create_ep) == 4 * kWord &&
              offsetof(Factory, own_version) == 7 * kWord);
static_assert(offsetof(Factory, create_allocator) == 9 * kWord &&
              offsetof(Factory, not_used) == 13 * kWord);

// --- Tables of the runtime -----------------------------------------------------------------------

// Entry `Number` of the table `Table`: a function from the arguments to `Result`.
template <class Table, size_t Number, class Result, class... Arguments>
struct Entry {
  using Owner = Table;
  using Function = Result (*)(Arguments...);
  static constexpr size_t number = Number;
};

template <size_t Number, class Result, class... Arguments>
using ApiEntry = Entry<Api, Number, Result, Arguments...>;
// A function that can fail.
template <size_t Number, class... Arguments>
using Checked = Entry<Api, Number, Status*, Arguments...>;
template <size_t Number, class Object>
using Release = Entry<Api, Number, void, Object*>;

using CreateStatus = ApiEntry<0, Status*, Code, const char*>;
using GetErrorMessage = ApiEntry<2, const char*, const Status*>;
using CreateEnv = Checked<3, Severity, const char*, Env**>;
using CreateSessionFromArray =
    Checked<8, const Env*, const void*, size_t, const SessionOptions*, Session**>;
using Run = Checked<9, Session*, const RunOptions*, const char* const*, const Value* const*, size_t,
                    const char* const*, size_t, Value**>;
using CreateSessionOptions = Checked<10, SessionOptions**>;
using SetSessionLogSeverityLevel = Checked<22, SessionOptions*, int>;
using SetIntraOpNumThreads = Checked<24, SessionOptions*, int>;
using CreateTensorWithData =
    Checked<49, const MemoryInfo*, void*, size_t, const int64_t*, size_t, Element, Value**>;
using GetTensorMutableData = Checked<51, Value*, void**>;
using CastTypeInfoToTensorInfo = Checked<55, const TypeInfo*, const TensorInfo**>;
using GetOnnxTypeFromTypeInfo = Checked<56, const TypeInfo*, Kind*>;
using GetTensorElementType = Checked<60, const TensorInfo*, Element*>;
using GetDimensionsCount = Checked<61, const TensorInfo*, size_t*>;
using GetDimensions = Checked<62, const TensorInfo*, int64_t*, size_t>;
using GetSymbolicDimensions = Checked<63, const TensorInfo*, const char**, size_t>;
using CreateCpuMemoryInfo = Checked<69, int, int, MemoryInfo**>;
using KernelContextGetInput = Checked<90, const KernelContext*, size_t, const Value**>;
using KernelContextGetOutput = Checked<91, KernelContext*, size_t, const int64_t*, size_t, Value**>;
using ReleaseEnv = Release<92, Env>;
using ReleaseStatus = Release<93, Status>;
using ReleaseMemoryInfo = Release<94, MemoryInfo>;
using ReleaseSession = Release<95, Session>;
using ReleaseValue = Release<96, Value>;
using ReleaseSessionOptions = Release<100, SessionOptions>;
using AddSessionConfigEntry = Checked<130, SessionOptions*, const char*, const char*>;
using CreateAttribute = Checked<211, const char*, const void*, int, AttributeType, Attribute**>;
using ReleaseAttribute = Release<212, Attribute>;
using LogMessage =
    Checked<247, const Logger*, Severity, const char*, const char*, int, const char*>;
using ReadAttribute = Checked<272, const Attribute*, AttributeType, void*, size_t, size_t*>;
using ParallelFor =
    Checked<274, const KernelContext*, void (*)(void*, size_t), size_t, size_t, void*>;
using GetValueInfoName = Checked<289, const ValueInfo*, const char**>;
using GetValueInfoTypeInfo = Checked<290, const ValueInfo*, const TypeInfo**>;
using GetEditorApi = ApiEntry<291, const EditorApi*>;
using GetPairs =
    ApiEntry<298, void, const Pairs*, const char* const**, const char* const**, size_t*>;
using ReleasePairs = Release<300, Pairs>;
using GetEpDevices = Checked<303, const Env*, const EpDevice* const**, size_t*>;
using AppendProvider = Checked<304, SessionOptions*, Env*, const EpDevice* const*, size_t,
                               const char* const*, const char* const*, size_t>;
using HardwareDeviceType = ApiEntry<307, Hardware, const HardwareDevice*>;
using EpDeviceName = ApiEntry<312, const char*, const EpDevice*>;
using GetEpApi = ApiEntry<317, const EpApi*>;
using GetTensorSizeInBytes = Checked<318, const Value*, size_t*>;
using GetInitializerValue = Checked<326, const ValueInfo*, const Value**>;
using IsGraphOutput = Checked<330, const ValueInfo*, bool*>;
using IsConstantInitializer = Checked<331, const ValueInfo*, bool*>;
using GetModelPath = Checked<334, const Graph*, const char**>;
using GetOnnxIrVersion = Checked<335, const Graph*, int64_t*>;
using GetNumOperatorSets = Checked<336, const Graph*, size_t*>;
using GetOperatorSets = Checked<337, const Graph*, const char**, int64_t*, size_t>;
using GetNumNodes = Checked<344, const Graph*, size_t*>;
using GetNodes = Checked<345, const Graph*, const Node**, size_t>;
using GetParentNode = Checked<346, const Graph*, const Node**>;
using NodeName = Checked<349, const Node*, const char**>;
using NodeOperator = Checked<350, const Node*, const char**>;
using NodeDomain = Checked<351, const Node*, const char**>;
using NodeNumInputs = Checked<353, const Node*, size_t*>;
using NodeInputs = Checked<354, const Node*, const ValueInfo**, size_t>;
using NodeNumOutputs = Checked<355, const Node*, size_t*>;
using NodeOutputs = Checked<356, const Node*, const ValueInfo**, size_t>;
using NodeNumImplicitInputs = Checked<357, const Node*, size_t*>;
using NodeImplicitInputs = Checked<358, const Node*, const ValueInfo**, size_t>;
using NodeNumAttributes = Checked<359, const Node*, size_t*>;
using NodeAttributes = Checked<360, const Node*, const Attribute**, size_t>;
using AttributeTensor = Checked<362, const Attribute*, Value**>;
using AttributeKind = Checked<363, const Attribute*, AttributeType*>;
using AttributeName = Checked<364, const Attribute*, const char**>;
using NodeNumSubgraphs = Checked<365, const Node*, size_t*>;
using GetTensorData = Checked<378, const Value*, const void**>;
using GetConfigEntries = Checked<379, const SessionOptions*, Pairs**>;
using GetTensorShape = Checked<414, const Value*, Element*, const int64_t**, size_t*>;

using CreateEpDevice = Entry<EpApi, 0, Status*, Factory*, const HardwareDevice*, const Pairs*,
                             const Pairs*, EpDevice**>;
using AddNodesToFuse =
    Entry<EpApi, 2, Status*, Support*, const Node* const*, size_t, const FusionOptions*>;
using ComputeContextName = Entry<EpApi, 4, const char*, const ComputeContext*>;

using CreateNode =
    Entry<EditorApi, 6, Status*, const char*, const char*, const char*, const char* const*, size_t,
          const char* const*, size_t, Attribute**, size_t, Node**>;

static_assert(GetTensorShape::number < kApiEntries && ComputeContextName::number < kEpApiEntries,
              "a runtime of kVersion has these entries");

using AnyFunction = void (*)();

// Calls an entry of a table.
template <class E, class... Given>
auto call(const typename E::Owner* table, Given... given) {
  const auto* entries = reinterpret_cast<const AnyFunction*>(table);
  return reinterpret_cast<typename E::Function>(entries[E::number])(given...);
}

}  // namespace ort
}  // namespace tilewright::provider
