// Garbage where code that forgets to initialize would find what it needs.
#pragma once

namespace tilewright {

// Bytes of which every type that kernels accumulate in is far from 0: NaN, large, and large and
// negative as a float of any width.
enum class Garbage : unsigned char { Nan = 0xff, High = 0x7b, Low = 0xfb };

// Fills the unused stack of this thread (128 KiB) and its vector registers. A local variable that is
// read before it is written then holds a wrong value.
void leave_garbage(Garbage garbage);

}  // namespace tilewright
