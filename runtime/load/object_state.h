// Whether a kernel's object has memory of its own that outlives a call.
#pragma once

#include <string>
#include <string_view>

namespace tilewright {

// Why results of this shared object may depend on earlier calls: it has bytes that stay writable
// when it is loaded, such as "it keeps 8 bytes from call to call". Empty where it has none, and for
// bytes that no loader would take. A kernel works in its operands, the workspace and its stack.
// Reads program headers and the dynamic section only, never outside of `object`.
std::string object_state(std::string_view object);

}  // namespace tilewright
