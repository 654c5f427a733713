#include "ir/interpreter/interpreter_frame.h"

#include <fmt/core.h>

namespace tilewright::interp {

std::shared_ptr<Storage> Storage::make(Buffer buffer, std::vector<int64_t> shape) {
  auto storage = std::make_shared<Storage>();
  storage->buffer = std::move(buffer);
  storage->shape = std::move(shape);
  auto count = static_cast<size_t>(storage->size());
  storage->own.resize(count);
  storage->written.resize(count);
  storage->data = storage->own.data();
  return storage;
}

int64_t Storage::size() const {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

std::string Storage::element(int64_t offset) const {
  std::string text;
  for (size_t d = shape.size(); d-- > 0; offset /= shape[d]) {
    text = fmt::format("{}{}{}", offset % shape[d], text.empty() ? "" : ", ", text);
  }
  return fmt::format("{}[{}]", buffer->name, text);
}

void AsyncQueue::issue(PendingStore store) {
  if (!store.storage->written.empty()) {
    store.storage->written[static_cast<size_t>(store.offset)] = 0;
  }
  open_.push_back(std::move(store));
}

void AsyncQueue::commit() {
  groups_.push_back(std::move(open_));
  open_.clear();
}

void AsyncQueue::wait(int64_t in_flight) {
  while (static_cast<int64_t>(groups_.size()) > in_flight) {
    for (const PendingStore& p : groups_.front()) {
      p.storage->data[p.offset] = p.value;
      if (!p.storage->written.empty())
        p.storage->written[static_cast<size_t>(p.offset)] = p.written;
    }
    groups_.pop_front();
  }
}

void AsyncQueue::absorb(AsyncQueue other, size_t base) {
  for (size_t g = 0; g < other.groups_.size(); ++g) {
    if (base + g == groups_.size()) groups_.emplace_back();
    auto& group = groups_[base + g];
    group.insert(group.end(), other.groups_[g].begin(), other.groups_[g].end());
  }
  open_.insert(open_.end(), other.open_.begin(), other.open_.end());
}

}  // namespace tilewright::interp
