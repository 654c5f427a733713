// A GPU: its memory, kernels in it, and the time that they take.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/driver_functions.h"

namespace tilewright::cuda {

struct DeviceFacts {
  std::string name;
  int compute_capability = 0;  ///< times ten: 90
  int sms = 0;
  int64_t memory_bytes = 0, l2_bytes = 0;
  int64_t shared_bytes_per_block = 0;  ///< with the opt-in that launches ask for
  int driver_version = 0;              ///< as CUDA counts: 13000
  std::string driver_build;            ///< as NVIDIA counts: "580.82.07"; empty: not known
  int clock_mhz = 0;                   ///< the highest of its SMs; 0: not known
  int memory_clock_mhz = 0;            ///< likewise

  /// "CUDA 13.0, 580.82.07".
  std::string driver() const;
};

/// The facts of GPU `index`, without opening it. Throws DeviceError that says why there is none;
/// `library` as for Device.
DeviceFacts device_facts(int index = 0, const std::string& library = {});

class Device;

/// Memory of a device, aligned to at least 256 bytes. Must go before its device does.
class DeviceArray {
 public:
  DeviceArray(Device& device, int64_t bytes);
  ~DeviceArray();
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  DeviceAddress address() const { return address_; }
  int64_t bytes() const { return bytes_; }
  /// Copies all of it, in order with what is launched; returns when that is done.
  void upload(const void* from);
  void download(void* to) const;

 private:
  Device& device_;
  DeviceAddress address_ = 0;
  int64_t bytes_;
};

/// Kernels from a cubin. Must go before its device does.
class DeviceModule {
 public:
  /// Throws DeviceError when the device does not take the cubin; `name` is for messages.
  DeviceModule(Device& device, std::string_view cubin, std::string name);
  ~DeviceModule();
  DeviceModule(const DeviceModule&) = delete;
  DeviceModule& operator=(const DeviceModule&) = delete;

  /// Throws DeviceError when there is no such kernel.
  Handle kernel(const std::string& entry) const;

 private:
  Device& device_;
  Handle module_ = nullptr;
  std::string name_;
};

struct DeviceLaunch {
  std::string name;  ///< for messages
  Handle kernel = nullptr;
  std::array<int, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  int64_t shared_bytes = 0;
  bool dependent = false;        ///< may start before the launch ahead of it has ended
  std::vector<void*> arguments;  ///< the address of each argument's value
};

/// A GPU through its primary context, with a stream of its own. One thread at a time uses it. After a
/// DeviceError of a kernel (an illegal address) the context is lost, and with it the process's use of
/// the device: candidates run in workers that may end.
class Device {
 public:
  /// Throws DeviceError that says why when there is no driver or no such device. `library` is the path
  /// of the driver, or empty for the system's.
  explicit Device(int index = 0, const std::string& library = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceFacts& facts() const { return facts_; }
  const DriverFunctions& driver() const { return driver_; }

  /// Starts a kernel; returns at once.
  void launch(const DeviceLaunch& launch);
  /// Waits for all that was started; a fault of a kernel shows here under `doing`.
  void wait(std::string_view doing);
  /// Milliseconds between the start and the end on the device of what `work` starts.
  double milliseconds(std::string_view doing, const std::function<void()>& work);
  Handle stream() const { return stream_; }
  /// Sets every byte of the array, in order with what is launched; returns at once.
  void fill(const DeviceArray& array, unsigned char value);
  /// Drives what kernels have read out of the last cache, by writing twice its size.
  void flush_l2();

 private:
  DriverFunctions driver_;
  int device_ = 0;
  Handle context_ = nullptr, stream_ = nullptr;
  DeviceFacts facts_;
  std::unique_ptr<DeviceArray> flush_;
};

/// Launches that were recorded on a device's stream, to be started again as one: a CUDA graph. Must
/// go before its device does.
class DeviceGraph {
 public:
  /// Captures what `work` starts; nothing of it runs yet. Throws DeviceError when it does what cannot
  /// be captured, such as to allocate or to wait.
  DeviceGraph(Device& device, const std::function<void()>& work);
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  /// Starts all of it; returns at once.
  void launch();

 private:
  Device& device_;
  Handle executable_ = nullptr;
};

}  // namespace tilewright::cuda
