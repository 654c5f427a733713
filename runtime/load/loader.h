// Shared objects from memory.
#pragma once

#include <string>
#include <string_view>

#include "runtime/load/elf_check.h"

namespace tilewright {

// Loads the bytes of a shared object as an object of its own, also when the same bytes are loaded
// already; for dlsym and dlclose. Touches no file system path unless the system has no anonymous
// files. Throws KernelError for bytes of which object_problem() says something, before anything of
// them runs, and for those that do not load.
void* load_shared_object(std::string_view object, ObjectKind kind = ObjectKind::Kernel);
// The address of a function or variable that the object itself defines, not a library that it needs;
// null where it has none of that name.
void* symbol_of(void* handle, const std::string& name);

}  // namespace tilewright
