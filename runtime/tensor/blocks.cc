#include "runtime/tensor/blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace tilewright {
namespace {

constexpr size_t kWorthKeeping = 12 << 20;  // with its protected pages

struct KeptBlock {
  unsigned char* base;
  size_t size;
};

struct KeptBlocks {
  std::mutex mutex;
  std::vector<KeptBlock> blocks;
  size_t bytes = 0;
};

KeptBlocks& kept() {
  static KeptBlocks instance;
  return instance;
}

// The smallest that is large enough, and not so large that much of it would lie idle.
KeptBlock take_kept(size_t size) {
  KeptBlocks& k = kept();
  std::lock_guard lock(k.mutex);
  auto best = k.blocks.end();
  for (auto it = k.blocks.begin(); it != k.blocks.end(); ++it) {
    const bool fits = it->size >= size && it->size <= size + size / 4;
    if (fits && (best == k.blocks.end() || it->size < best->size)) best = it;
  }
  if (best == k.blocks.end()) return {nullptr, 0};
  const KeptBlock found = *best;
  k.bytes -= found.size;
  k.blocks.erase(best);
  return found;
}

void free_kept() {
  KeptBlocks& k = kept();
  std::lock_guard lock(k.mutex);
  for (const KeptBlock& b : k.blocks) munmap(b.base, b.size);
  k.blocks.clear();
  k.bytes = 0;
}

void* map_inaccessible(size_t size) {
  return mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

}  // namespace

unsigned char* take_block(size_t* size, bool* used_before) {
  const KeptBlock found = take_kept(*size);
  *used_before = found.base != nullptr;
  if (*used_before) {
    *size = found.size;
    return found.base;
  }
  void* base = map_inaccessible(*size);
  if (base == MAP_FAILED) {
    free_kept();
    base = map_inaccessible(*size);
  }
  return base == MAP_FAILED ? nullptr : static_cast<unsigned char*>(base);
}

void give_block(unsigned char* base, size_t size) {
  KeptBlocks& k = kept();
  std::lock_guard lock(k.mutex);
  const bool keep =
      size >= kWorthKeeping && size <= kMostKeptBytes && mprotect(base, size, PROT_NONE) == 0;
  if (!keep) {
    munmap(base, size);
    return;
  }
  k.blocks.push_back({base, size});
  k.bytes += size;
  // The oldest blocks are the least likely to be asked for again.
  while (k.bytes > kMostKeptBytes) {
    munmap(k.blocks.front().base, k.blocks.front().size);
    k.bytes -= k.blocks.front().size;
    k.blocks.erase(k.blocks.begin());
  }
}

}  // namespace tilewright
