// The C++ that makes a CPU program of CUDA kernels.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace tilewright::emulator {

// A translation unit of these kernels behind the emulation header, with an entry for each name. Lines
// of `text` count from 1 under the file name `entries[0].cu`.
std::string emulated_unit(const std::string& text, const std::vector<std::string>& entries);

// The `__cluster_dims__` of the kernel `entry`, x, y, z; all 1 where it has none.
std::array<int, 3> cluster_of(const std::string& text, const std::string& entry);

}  // namespace tilewright::emulator
