// The two functions that the runtime looks for in the library of a provider.
#include <memory>

#include "provider/provider.h"
#include "tilewright/version.h"

namespace tilewright::provider {
namespace {

ProviderFactory& factory_of(ort::Factory* factory) {
  return *static_cast<ProviderFactory*>(factory);
}

void list_devices(ProviderFactory& factory, const ort::HardwareDevice* const* devices, size_t count,
                  ort::EpDevice** made, size_t most, size_t* made_count) {
  const Runtime& runtime = factory.runtime();
  *made_count = 0;
  for (size_t i = 0; i < count && *made_count < most; ++i) {
    if (runtime.plain<ort::HardwareDeviceType>(devices[i]) != ort::kCpu) continue;
    runtime.check(ort::call<ort::CreateEpDevice>(runtime.plain<ort::GetEpApi>(),
                                                 static_cast<ort::Factory*>(&factory), devices[i],
                                                 nullptr, nullptr, made + *made_count));
    ++*made_count;
  }
}

}  // namespace

ProviderFactory::ProviderFactory(Runtime used) : ort::Factory{}, runtime_(std::move(used)) {
  version = ort::kVersion;
  name = [](const ort::Factory*) { return kProviderName; };
  vendor = [](const ort::Factory*) { return "Tilewright"; };
  own_version = [](const ort::Factory*) { return TILEWRIGHT_VERSION; };
  vendor_id = [](const ort::Factory*) { return uint32_t{0}; };
  supported_devices = [](ort::Factory* self, const ort::HardwareDevice* const* devices,
                         size_t count, ort::EpDevice** made, size_t most, size_t* made_count) {
    return factory_of(self).runtime().guarded(
        [&] { list_devices(factory_of(self), devices, count, made, most, made_count); });
  };
  create_ep = [](ort::Factory* self, const ort::HardwareDevice* const*, const ort::Pairs* const*,
                 size_t, const ort::SessionOptions* session, const ort::Logger* logger,
                 ort::Ep** made) {
    const Runtime& runtime = factory_of(self).runtime();
    return runtime.guarded([&] {
      *made = std::make_unique<Provider>(runtime, logger, read_options(runtime, session)).release();
    });
  };
  release_ep = [](ort::Factory*, ort::Ep* ep) { delete static_cast<Provider*>(ep); };
  // Tensors are the runtime's own, in the host's memory.
  create_allocator = [](ort::Factory*, const ort::MemoryInfo*, const ort::Pairs*,
                        void** made) -> ort::Status* {
    *made = nullptr;
    return nullptr;
  };
  release_allocator = [](ort::Factory*, void*) {};
  create_data_transfer = [](ort::Factory*, void** made) -> ort::Status* {
    *made = nullptr;
    return nullptr;
  };
  is_stream_aware = [](const ort::Factory*) { return false; };
}

}  // namespace tilewright::provider

namespace {

namespace provider = tilewright::provider;
namespace ort = tilewright::provider::ort;

// The oldest version has the entries that tell of a failure, at the same numbers.
ort::Status* refuse_runtime(const ort::ApiBase* base, const std::string& why) {
  const provider::Runtime oldest(base->api(1), "");
  return oldest.status(ort::kFail, why.c_str());
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) ort::Status* CreateEpFactories(
    const char* /*registered_name*/, const ort::ApiBase* base, const ort::Logger*,
    ort::Factory** factories, size_t most, size_t* count) noexcept {
  const ort::Api* api = base->api(ort::kVersion);
  if (api == nullptr) {
    return refuse_runtime(base, std::string("Tilewright's provider needs ONNX Runtime ") +
                                    ort::kRelease + " or later; this one is " + base->version() +
                                    ": pip install -U onnxruntime");
  }
  provider::Runtime runtime(api, base->version());
  return runtime.guarded([&] {
    if (most < 1) throw provider::ProviderError("there is no room for a factory");
    factories[0] = std::make_unique<provider::ProviderFactory>(runtime).release();
    *count = 1;
  });
}

__attribute__((visibility("default"))) ort::Status* ReleaseEpFactory(
    ort::Factory* factory) noexcept {
  delete static_cast<provider::ProviderFactory*>(factory);
  return nullptr;
}

}  // extern "C"
