// Where NVIDIA's libraries are looked for when they are opened at run time.
#pragma once

#include <string>
#include <vector>

namespace tilewright::cuda {

/// Paths of a library to try in order, for each of its file names in theirs: the loader's own search,
/// then the folders where toolkits are installed, then this user's cache, where scripts/cuda_tools
/// puts NVRTC; where the knob TILEWRIGHT_CUDA names a folder, only that. Nothing where the knob is "off".
std::vector<std::string> toolkit_paths(const std::vector<std::string>& file_names);

/// Opens the first of the paths that loads, for the rest of the process; null where none does.
void* open_first(const std::vector<std::string>& paths);

}  // namespace tilewright::cuda
