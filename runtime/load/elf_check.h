// Which shared objects the dynamic loader is given.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tilewright {

enum class ObjectKind : uint8_t {
  Kernel,     // a kernel, perhaps out of somebody else's database
  Emulation,  // a CUDA program that this process has just compiled for the emulator
};

// Why the dynamic loader does not get these bytes, such as "it has an initializer (DT_INIT_ARRAY)";
// empty when it may have them. Reads the bytes only, never outside them, and looks at what the
// loader itself uses (program headers and the dynamic section), never at section headers.
//
// An object that passes runs nothing while it is loaded or unloaded, names no other library than
// the C library and its libm, and takes no other function from them than mathematics and memcpy,
// memset, memmove, memcmp. What its own instructions do when a kernel is called is not looked at:
// a system call needs no symbol (docs/sandbox.md).
//
// Objects of kind Emulation are C++ and may also need the C++ runtime.
std::string object_problem(std::string_view object, ObjectKind kind = ObjectKind::Kernel);

}  // namespace tilewright
