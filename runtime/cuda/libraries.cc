#include "runtime/cuda/libraries.h"

#include <dlfcn.h>

#include <cstdlib>
#include <optional>

#include "base/files.h"
#include "base/knobs.h"

namespace tilewright::cuda {
namespace {

std::vector<std::string> toolkit_folders() {
  const std::string folder = knob_text(Knob::Cuda);
  if (folder == "off") return {};
  if (!folder.empty()) return {folder + "/lib64/", folder + "/lib/", folder + "/"};
  std::vector<std::string> folders = {""};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* value = std::getenv(variable); value && *value) {
      folders.push_back(std::string(value) + "/lib64/");
    }
  }
  folders.insert(folders.end(), {"/usr/local/cuda/lib64/", "/opt/cuda/lib64/",
                                 "/usr/lib/x86_64-linux-gnu/", "/usr/lib/wsl/lib/"});
  // scripts/cuda_tools installs NVRTC there where there is no toolkit.
  if (const std::optional<std::string> cache = user_cache()) {
    const std::string installed = *cache + "/cuda/lib";
    if (is_own_directory(installed)) folders.push_back(installed + "/");
  }
  return folders;
}

}  // namespace

std::vector<std::string> toolkit_paths(const std::vector<std::string>& file_names) {
  std::vector<std::string> paths;
  for (const std::string& folder : toolkit_folders()) {
    for (const std::string& name : file_names) paths.push_back(folder + name);
  }
  return paths;
}

void* open_first(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  return nullptr;
}

}  // namespace tilewright::cuda
