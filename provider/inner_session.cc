#include "provider/inner_session.h"

#include <cstring>

#include "provider/options.h"
#include "provider/runner.h"

namespace tilewright::provider {
namespace {

void append_self(const Runtime& runtime, ort::Env* env, ort::SessionOptions* session,
                 const InnerSession::ProviderOptions& options) {
  const ort::EpDevice* const* devices = nullptr;
  size_t count = 0;
  runtime.checked<ort::GetEpDevices>(env, &devices, &count);
  for (size_t i = 0; i < count; ++i) {
    if (std::strcmp(runtime.plain<ort::EpDeviceName>(devices[i]), kProviderName) != 0) continue;
    std::vector<const char*> keys, values;
    for (const auto& [key, value] : options) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
    runtime.checked<ort::AppendProvider>(session, env, devices + i, size_t{1}, keys.data(),
                                         values.data(), keys.size());
    return;
  }
  throw ProviderError("the runtime does not list this provider's device");
}

}  // namespace

InnerSession::InnerSession(const Runtime& runtime, const std::string& model, int threads,
                           Names names, const ProviderOptions& options)
    : runtime_(runtime), names_(std::move(names)), env_(runtime), session_(runtime) {
  // The process has one environment: this is another reference to it.
  runtime.checked<ort::CreateEnv>(ort::kWarning, "tilewright", env_.out());
  OwnedSessionOptions session(runtime);
  runtime.checked<ort::CreateSessionOptions>(session.out());
  runtime.checked<ort::SetIntraOpNumThreads>(session.get(), threads);
  runtime.checked<ort::SetSessionLogSeverityLevel>(session.get(), 3);  // errors
  if (!options.empty()) append_self(runtime, env_.get(), session.get(), options);
  runtime.checked<ort::CreateSessionFromArray>(env_.get(), static_cast<const void*>(model.data()),
                                               model.size(), session.get(), session_.out());
}

std::vector<OwnedValue> InnerSession::run(const std::vector<const ort::Value*>& inputs) const {
  const std::vector<const char*> in = pointers_to(names_.inputs), out = pointers_to(names_.outputs);
  std::vector<ort::Value*> made(out.size(), nullptr);
  ort::Status* status = runtime_.plain<ort::Run>(session_.get(), nullptr, in.data(), inputs.data(),
                                                 in.size(), out.data(), out.size(), made.data());
  std::vector<OwnedValue> outputs;
  for (ort::Value* value : made) outputs.emplace_back(runtime_, value);
  runtime_.check(status);
  return outputs;
}

}  // namespace tilewright::provider
