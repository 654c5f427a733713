// Shared objects from memory.
#pragma once

#include <string>
#include <string_view>

namespace tilewright {

// Loads the bytes of a shared object as an object of its own, also when the same bytes are loaded
// already; for dlsym and dlclose. Touches no file system path unless the system has no anonymous
// files. Throws KernelError.
void* load_shared_object(std::string_view object);

}  // namespace tilewright
