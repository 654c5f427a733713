#include "runtime/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "runtime/cuda/launch.h"
#include "runtime/error.h"

namespace tilewright::cuda {
namespace {

// Attributes by the driver's numbers.
constexpr int kClockKhz = 13, kMemoryClockKhz = 36;
constexpr int kSms = 16, kL2Bytes = 38, kMajor = 75, kMinor = 76, kSharedOptIn = 97;
constexpr int kMaxDynamicShared = 8;  // of a function
constexpr int64_t kPlainSharedBytes = 48 << 10;
constexpr unsigned kNonBlocking = 1;    // a stream that does not wait for the default one
constexpr int kThreadLocalCapture = 1;  // other threads may do what cannot be captured
constexpr unsigned char kFlushValue = 0x5a;

std::array<unsigned, 3> extents(const std::array<int, 3>& values) {
  std::array<unsigned, 3> extents = {};
  std::transform(values.begin(), values.end(), extents.begin(),
                 [](int value) { return static_cast<unsigned>(value); });
  return extents;
}

// The driver's number of GPU `index`.
int find_device(const DriverFunctions& driver, int index) {
  driver.check(driver.init(0), "no GPU: the CUDA driver does not start");
  int count = 0, device = 0;
  driver.check(driver.device_count(&count), "counting GPUs");
  if (index < 0 || index >= count) {
    throw DeviceError(fmt::format("no GPU {}: this machine has {}", index, count));
  }
  driver.check(driver.device(&device, index), fmt::format("finding GPU {}", index));
  return device;
}

DeviceFacts read_facts(const DriverFunctions& driver, int device) {
  auto attribute = [&](int which) {
    int value = 0;
    driver.check(driver.device_attribute(&value, which, device),
                 fmt::format("asking for attribute {}", which));
    return value;
  };
  DeviceFacts facts;
  char name[256] = {};
  driver.check(driver.device_name(name, sizeof(name), device), "asking for the GPU's name");
  facts.name = name;
  size_t bytes = 0;
  driver.check(driver.device_memory(&bytes, device), "asking for the GPU's memory");
  facts.memory_bytes = static_cast<int64_t>(bytes);
  facts.compute_capability = attribute(kMajor) * 10 + attribute(kMinor);
  facts.sms = attribute(kSms);
  facts.l2_bytes = attribute(kL2Bytes);
  facts.shared_bytes_per_block = attribute(kSharedOptIn);
  driver.check(driver.version(&facts.driver_version), "asking for the driver's version");
  std::getline(std::ifstream("/sys/module/nvidia/version"), facts.driver_build);
  // Drivers are free to forget about these.
  auto megahertz = [&](int which) {
    int khz = 0;
    return driver.device_attribute(&khz, which, device) == 0 ? khz / 1000 : 0;
  };
  facts.clock_mhz = megahertz(kClockKhz);
  facts.memory_clock_mhz = megahertz(kMemoryClockKhz);
  return facts;
}

}  // namespace

std::string DeviceFacts::driver() const {
  std::string cuda = fmt::format("CUDA {}.{}", driver_version / 1000, driver_version % 1000 / 10);
  return driver_build.empty() ? cuda : cuda + ", " + driver_build;
}

DeviceArray::DeviceArray(Device& device, int64_t bytes) : device_(device), bytes_(bytes) {
  device.driver().check(
      device.driver().allocate(&address_, static_cast<size_t>(std::max<int64_t>(bytes, 1))),
      fmt::format("allocating {} bytes", bytes));
}

DeviceArray::~DeviceArray() { device_.driver().free(address_); }

// Copies go through the stream: the driver's plain copy from memory that is not pinned may return
// before the bytes have arrived, and kernels in a stream of their own would not wait for them.
void DeviceArray::upload(const void* from) {
  std::string doing = fmt::format("uploading {} bytes", bytes_);
  device_.driver().check(
      device_.driver().upload(address_, from, static_cast<size_t>(bytes_), device_.stream()),
      doing);
  device_.wait(doing);
}

void DeviceArray::download(void* to) const {
  std::string doing = fmt::format("downloading {} bytes", bytes_);
  device_.driver().check(
      device_.driver().download(to, address_, static_cast<size_t>(bytes_), device_.stream()),
      doing);
  device_.wait(doing);
}

DeviceFacts device_facts(int index, const std::string& library) {
  DriverFunctions driver = open_driver(library);
  return read_facts(driver, find_device(driver, index));
}

Device::Device(int index, const std::string& library) : driver_(open_driver(library)) {
  device_ = find_device(driver_, index);
  facts_ = read_facts(driver_, device_);
  driver_.check(driver_.context_retain(&context_, device_), "opening " + facts_.name);
  int status = driver_.context_use(context_);
  if (status == 0) status = driver_.stream_create(&stream_, kNonBlocking);
  if (status != 0) driver_.context_release(device_);
  driver_.check(status, "opening " + facts_.name);
}

Device::~Device() {
  flush_.reset();
  driver_.stream_destroy(stream_);
  driver_.context_release(device_);
}

void Device::launch(const DeviceLaunch& l) {
  std::string doing = fmt::format("kernel '{}'", l.name);
  if (l.shared_bytes > facts_.shared_bytes_per_block) {
    throw DeviceError(fmt::format("{}: {} bytes of shared memory per block; {} has {}", doing,
                                  l.shared_bytes, facts_.name, facts_.shared_bytes_per_block));
  }
  if (l.shared_bytes > kPlainSharedBytes) {
    driver_.check(
        driver_.function_attribute(l.kernel, kMaxDynamicShared, static_cast<int>(l.shared_bytes)),
        doing);
  }
  std::vector<void*> arguments = l.arguments;  // the driver's interface takes them as mutable
  const LaunchShape shape = {extents(l.grid), extents(l.block),
                             static_cast<unsigned>(l.shared_bytes), stream_, l.dependent};
  driver_.check(launch_kernel(driver_, l.kernel, shape, arguments.data()), doing);
}

void Device::wait(std::string_view doing) { driver_.check(driver_.stream_wait(stream_), doing); }

double Device::milliseconds(std::string_view doing, const std::function<void()>& work) {
  return driver_.milliseconds(stream_, doing, work);
}

void Device::flush_l2() {
  if (!flush_) flush_ = std::make_unique<DeviceArray>(*this, 2 * facts_.l2_bytes);
  fill(*flush_, kFlushValue);
}

void Device::fill(const DeviceArray& array, unsigned char value) {
  driver_.check(driver_.fill(array.address(), value, static_cast<size_t>(array.bytes()), stream_),
                fmt::format("filling {} bytes", array.bytes()));
}

DeviceGraph::DeviceGraph(Device& device, const std::function<void()>& work) : device_(device) {
  const DriverFunctions& driver = device.driver();
  driver.check(driver.capture_begin(device.stream(), kThreadLocalCapture), "capturing a graph");
  Handle graph = nullptr;
  try {
    work();
  } catch (...) {
    driver.capture_end(device.stream(), &graph);  // the stream is of use again
    if (graph != nullptr) driver.graph_destroy(graph);
    throw;
  }
  driver.check(driver.capture_end(device.stream(), &graph), "capturing a graph");
  int status = driver.graph_instantiate(&executable_, graph, 0);
  driver.graph_destroy(graph);
  driver.check(status, "making a graph");
}

DeviceGraph::~DeviceGraph() { device_.driver().graph_executable_destroy(executable_); }

void DeviceGraph::launch() {
  device_.driver().check(device_.driver().graph_launch(executable_, device_.stream()),
                         "launching a graph");
}

}  // namespace tilewright::cuda
