// Memory of a model's values while it runs, of the host or of a GPU, and the order of copies and
// launches there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "serving/operand.h"

namespace tilewright::serving {

class Gpu;

// Uninitialized memory of the host (null) or of a GPU, aligned to 64 bytes at least.
class Block {
 public:
  Block() = default;
  Block(int64_t bytes, std::shared_ptr<const Gpu> gpu);

  void* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }
  // Copies all bytes from the memory of the host; returns when that is done.
  void write(const void* from) const;

 private:
  std::shared_ptr<const Gpu> gpu_;
  std::shared_ptr<void> data_;
  int64_t bytes_ = 0;
};

// Copies from or to the tensors of a run, in order with the launches of the stream. `gpu` is the model's.
void copy_in(const Gpu* gpu, void* own, const DLTensor& tensor, int64_t bytes, void* stream);
void copy_out(const Gpu* gpu, const void* own, const DLTensor& tensor, int64_t bytes, void* stream);

// Launches that were recorded once, to be started again as one: a CUDA graph.
class CapturedRun {
 public:
  // Records what `launch_all` starts on the stream that it gets; nothing of it runs yet. Throws DeviceError.
  CapturedRun(std::shared_ptr<const Gpu> gpu, const std::function<void(void* stream)>& launch_all);
  ~CapturedRun();
  CapturedRun(const CapturedRun&) = delete;
  CapturedRun& operator=(const CapturedRun&) = delete;

  // Starts all of it on a stream of the caller's. Allocates nothing.
  void start(void* stream) const;

 private:
  std::shared_ptr<const Gpu> gpu_;
  void* executable_ = nullptr;
};

// Seconds that a GPU takes from the start to the end of what `work` starts on the stream; waits for that.
double seconds_on(const Gpu& gpu, void* stream, const std::function<void()>& work);
// Waits for all that was started on the stream.
void wait_for(const Gpu& gpu, void* stream);

}  // namespace tilewright::serving
