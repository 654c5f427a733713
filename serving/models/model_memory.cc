#include "serving/models/model_memory.h"

#include <fmt/format.h>

#include <cstring>

#include "runtime/load/kernel.h"
#include "serving/gpu.h"

namespace tilewright::serving {
namespace {

constexpr int kThreadLocalCapture = 1;  // what other threads do meanwhile is their own affair

cuda::DeviceAddress address_of(const void* pointer) {
  return reinterpret_cast<cuda::DeviceAddress>(pointer);
}

std::shared_ptr<void> reserve_on(const std::shared_ptr<const Gpu>& gpu, int64_t bytes) {
  cuda::DeviceAddress address = 0;
  gpu->use();
  gpu->driver().check(gpu->driver().allocate(&address, static_cast<size_t>(bytes)),
                      fmt::format("reserving {} bytes on {}", bytes, gpu->facts().name));
  void* pointer = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  return {pointer, [gpu](void* at) {
            gpu->use_quietly();
            gpu->driver().free(address_of(at));
          }};
}

// A stream of one's own, for as long as this object lives.
class OwnStream {
 public:
  explicit OwnStream(const Gpu& gpu) : gpu_(gpu) {
    gpu.driver().check(gpu.driver().stream_create(&stream_, 1), "making a stream");
  }
  ~OwnStream() { gpu_.driver().stream_destroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  void* get() const { return stream_; }

 private:
  const Gpu& gpu_;
  cuda::Handle stream_ = nullptr;
};

}  // namespace

Block::Block(int64_t bytes, std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)), bytes_(bytes) {
  if (bytes == 0) return;
  if (gpu_ != nullptr) {
    data_ = reserve_on(gpu_, bytes);
  } else {
    auto memory = std::make_shared<Workspace>(bytes);
    data_ = std::shared_ptr<void>(memory, memory->data());
  }
}

void Block::write(const void* from) const {
  const auto bytes = static_cast<size_t>(bytes_);
  if (gpu_ == nullptr) {
    std::memcpy(data(), from, bytes);
    return;
  }
  gpu_->use();
  gpu_->driver().check(gpu_->driver().upload(address_of(data()), from, bytes, nullptr),
                       fmt::format("uploading {} bytes", bytes));
  wait_for(*gpu_, nullptr);
}

void copy_in(const Gpu* gpu, void* own, const DLTensor& tensor, int64_t bytes, void* stream) {
  const void* given = first_element(tensor);
  const auto size = static_cast<size_t>(bytes);
  if (gpu == nullptr) {
    std::memcpy(own, given, size);
    return;
  }
  const cuda::DriverFunctions& driver = gpu->driver();
  const bool on_host = tensor.device.device_type == kDLCPU;
  driver.check(on_host ? driver.upload(address_of(own), given, size, stream)
                       : driver.copy(address_of(own), address_of(given), size, stream),
               "copying an input");
}

void copy_out(const Gpu* gpu, const void* own, const DLTensor& tensor, int64_t bytes,
              void* stream) {
  void* given = first_element(tensor);
  const auto size = static_cast<size_t>(bytes);
  if (gpu == nullptr) {
    std::memcpy(given, own, size);
    return;
  }
  const cuda::DriverFunctions& driver = gpu->driver();
  const bool on_host = tensor.device.device_type == kDLCPU;
  driver.check(on_host ? driver.download(given, address_of(own), size, stream)
                       : driver.copy(address_of(given), address_of(own), size, stream),
               "copying an output");
}

CapturedRun::CapturedRun(std::shared_ptr<const Gpu> gpu,
                         const std::function<void(void* stream)>& launch_all)
    : gpu_(std::move(gpu)) {
  const cuda::DriverFunctions& driver = gpu_->driver();
  gpu_->use();
  const OwnStream stream(*gpu_);
  driver.check(driver.capture_begin(stream.get(), kThreadLocalCapture), "capturing a graph");
  cuda::Handle graph = nullptr;
  try {
    launch_all(stream.get());
  } catch (...) {
    driver.capture_end(stream.get(), &graph);
    if (graph != nullptr) driver.graph_destroy(graph);
    throw;
  }
  driver.check(driver.capture_end(stream.get(), &graph), "capturing a graph");
  const int status = driver.graph_instantiate(&executable_, graph, 0);
  driver.graph_destroy(graph);
  driver.check(status, "making a graph");
}

CapturedRun::~CapturedRun() {
  gpu_->use_quietly();
  gpu_->driver().graph_executable_destroy(executable_);
}

void CapturedRun::start(void* stream) const {
  const int status = gpu_->driver().graph_launch(executable_, stream);
  if (status != 0) gpu_->driver().check(status, "launching a graph");
}

double seconds_on(const Gpu& gpu, void* stream, const std::function<void()>& work) {
  return gpu.driver().milliseconds(stream, "timing a node", work) * 1e-3;
}

void wait_for(const Gpu& gpu, void* stream) {
  gpu.driver().check(gpu.driver().stream_wait(stream), "waiting for the GPU");
}

}  // namespace tilewright::serving
