// Address space for arrays between protected pages.
#pragma once

#include <cstddef>

namespace tilewright {

// At least `*size` bytes of protected address space, a multiple of the page size, or null with errno
// set; sets the size. A large block may be one that was given back, with its old contents, and sets
// `*used_before`: pages that the system clears first cost more than a packing function takes. Safe
// from several threads.
unsigned char* take_block(size_t* size, bool* used_before);

// Gives a block of `size` bytes back. Large ones are kept for later, up to kMostKeptBytes together.
void give_block(unsigned char* base, size_t size);

constexpr size_t kMostKeptBytes = 256 << 20;

}  // namespace tilewright
