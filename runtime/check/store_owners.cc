#include "runtime/check/store_owners.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tilewright {
namespace {

// Bytes that are compared for one loop: about a millisecond.
constexpr int64_t kMostWatched = 4 << 20;
constexpr size_t kCompared = 256;  // bytes at once

}  // namespace

StoreOwners::StoreOwners(std::string name, std::span<unsigned char> memory)
    : name_(std::move(name)), memory_(memory) {}

void StoreOwners::begin_loop(int64_t iterations) {
  watching_ = iterations > 1 && !memory_.empty() &&
              iterations <= kMostWatched / static_cast<int64_t>(memory_.size());
  if (!watching_) return;
  before_.assign(memory_.begin(), memory_.end());
  owned_.assign(memory_.size(), false);
}

void StoreOwners::end_iteration() {
  if (!watching_) return;
  for (size_t begin = 0; begin < memory_.size(); begin += kCompared) {
    const size_t end = std::min(begin + kCompared, memory_.size());
    if (std::memcmp(&memory_[begin], &before_[begin], end - begin) != 0) claim(begin, end);
  }
}

void StoreOwners::claim(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    if (memory_[i] == before_[i]) continue;
    if (owned_[i]) apart_ = false;
    owned_[i] = true;
    memory_[i] = static_cast<unsigned char>(~memory_[i]);
    before_[i] = memory_[i];
  }
}

void StoreOwners::end_loop() {
  if (!watching_) return;
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (owned_[i]) memory_[i] = static_cast<unsigned char>(~memory_[i]);
  }
  watching_ = false;
}

}  // namespace tilewright
