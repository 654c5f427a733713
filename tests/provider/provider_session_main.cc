// A session of ONNX Runtime's own shared library with the provider, in C++.
//
// usage: provider_session LIBONNXRUNTIME PROVIDER MODEL FOLDER
// MODEL has one input x of rows of 64 floats, and one output y. Runs it with the provider, all of whose nodes it has
// to claim, and without, and prints the largest difference and magnitude.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <vector>

#include "provider/graph_view.h"
#include "provider/options.h"

namespace tilewright::provider {
namespace {

using CreateSession =
    ort::Checked<7, const ort::Env*, const char*, const ort::SessionOptions*, ort::Session**>;
using RegisterLibrary = ort::Checked<301, ort::Env*, const char*, const char*>;
using UnregisterLibrary = ort::Checked<302, ort::Env*, const char*>;

Runtime runtime_of(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw ProviderError(dlerror());
  auto* base = reinterpret_cast<const ort::ApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
  if (base == nullptr) throw ProviderError("no OrtGetApiBase");
  const ort::Api* api = base()->api(ort::kVersion);
  if (api == nullptr) throw ProviderError("the runtime is older");
  return {api, base()->version()};
}

void add_provider(const Runtime& runtime, ort::Env* env, ort::SessionOptions* session,
                  const char* folder) {
  const ort::EpDevice* const* devices = nullptr;
  size_t count = 0;
  runtime.checked<ort::GetEpDevices>(env, &devices, &count);
  const auto* own = std::find_if(devices, devices + count, [&](const ort::EpDevice* device) {
    return std::strcmp(runtime.plain<ort::EpDeviceName>(device), kProviderName) == 0;
  });
  if (own == devices + count) throw ProviderError("the runtime does not list the provider");
  const char* keys[] = {"models", "trial", "threads"};
  const char* values[] = {folder, "0", "1"};
  runtime.checked<ort::AppendProvider>(session, env, own, size_t{1},
                                       static_cast<const char* const*>(keys),
                                       static_cast<const char* const*>(values), size_t{3});
  runtime.checked<ort::AddSessionConfigEntry>(session, "session.disable_cpu_ep_fallback", "1");
}

// The output for two rows; `folder` is null without the provider.
std::vector<float> run(const Runtime& runtime, ort::Env* env, const char* model,
                       const char* folder) {
  OwnedSessionOptions options(runtime);
  runtime.checked<ort::CreateSessionOptions>(options.out());
  runtime.checked<ort::SetIntraOpNumThreads>(options.get(), 1);
  if (folder != nullptr) add_provider(runtime, env, options.get(), folder);
  OwnedSession session(runtime);
  runtime.checked<CreateSession>(env, model, options.get(), session.out());
  std::vector<float> x(2 * 64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) / 13 - 0.5F;
  const int64_t shape[] = {2, 64};
  OwnedMemoryInfo memory(runtime);
  OwnedValue input(runtime), output(runtime);
  runtime.checked<ort::CreateCpuMemoryInfo>(0, 0, memory.out());
  runtime.checked<ort::CreateTensorWithData>(
      memory.get(), static_cast<void*>(x.data()), x.size() * sizeof(float),
      static_cast<const int64_t*>(shape), size_t{2}, ort::kF32, input.out());
  const char *in[] = {"x"}, *out[] = {"y"};
  const ort::Value* inputs[] = {input.get()};
  runtime.checked<ort::Run>(session.get(), nullptr, static_cast<const char* const*>(in),
                            static_cast<const ort::Value* const*>(inputs), size_t{1},
                            static_cast<const char* const*>(out), size_t{1}, output.out());
  const auto bytes =
      runtime.get<ort::GetTensorSizeInBytes, size_t>(static_cast<const ort::Value*>(output.get()));
  const auto* data = static_cast<const float*>(
      runtime.get<ort::GetTensorData, const void*>(static_cast<const ort::Value*>(output.get())));
  return {data, data + bytes / sizeof(float)};
}

void compare(const char* library, const char* provider, const char* model, const char* folder) {
  const Runtime runtime = runtime_of(library);
  OwnedEnv env(runtime);
  runtime.checked<ort::CreateEnv>(ort::kWarning, "provider_session", env.out());
  runtime.checked<RegisterLibrary>(env.get(), "tilewright", provider);
  const std::vector<float> got = run(runtime, env.get(), model, folder);
  const std::vector<float> wanted = run(runtime, env.get(), model, nullptr);
  if (got.size() != wanted.size()) throw ProviderError("the outputs have different sizes");
  float apart = 0, largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    apart = std::max(apart, std::abs(got[i] - wanted[i]));
    largest = std::max(largest, std::abs(wanted[i]));
  }
  runtime.checked<UnregisterLibrary>(env.get(), "tilewright");
  std::printf("%s %g %g\n", runtime.release().c_str(), static_cast<double>(apart),
              static_cast<double>(largest));
}

}  // namespace
}  // namespace tilewright::provider

int main(int count, char** arguments) {
  if (count != 5) {
    std::fputs("usage: provider_session LIBONNXRUNTIME PROVIDER MODEL FOLDER\n", stderr);
    return 2;
  }
  try {
    tilewright::provider::compare(arguments[1], arguments[2], arguments[3], arguments[4]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "provider_session: %s\n", e.what());
    return 1;
  }
  return 0;
}
