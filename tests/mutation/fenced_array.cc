#include "tests/mutation/fenced_array.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace tilewright::mutation {
namespace {

constexpr size_t kPage = 4096, kFence = size_t{2} << 20;
constexpr unsigned char kNaN = 0xff;

}  // namespace

FencedArray::FencedArray(int64_t bytes, At at) : bytes_(bytes) {
  inside_ = (static_cast<size_t>(bytes) + kPage - 1) / kPage * kPage;
  all_ = inside_ + 2 * kFence;
  void* memory = mmap(nullptr, all_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<unsigned char*>(memory);
  inner_ = base_ + kFence;
  mprotect(inner_, inside_, PROT_READ | PROT_WRITE);
  std::memset(inner_, kNaN, inside_);
  const size_t offset = at == At::Begin ? 0 : (inside_ - static_cast<size_t>(bytes)) / 64 * 64;
  data_ = inner_ + offset;
}

FencedArray::~FencedArray() { munmap(base_, all_); }

void FencedArray::read_only(bool is) const {
  mprotect(inner_, inside_, is ? PROT_READ : PROT_READ | PROT_WRITE);
}

bool FencedArray::whole() const {
  auto kept = [](unsigned char b) { return b == kNaN; };
  return std::all_of(inner_, data_, kept) && std::all_of(data_ + bytes_, inner_ + inside_, kept);
}

}  // namespace tilewright::mutation
