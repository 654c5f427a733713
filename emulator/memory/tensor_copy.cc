#include "emulator/memory/tensor_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace tilewright::emulator {
namespace {

constexpr int64_t kBoxAlignment = 128;  // of a box in shared memory
constexpr int64_t kBulkAlignment = 16;  // of plain copies: addresses and sizes

// One row of a box, along dimension 0.
struct Row {
  int64_t begin = 0;    // in the box as it would lie without a swizzle, in bytes
  int64_t operand = 0;  // in the operand: where the row's first element that lies in it does
  int64_t before = 0, inside = 0;  // bytes of the row beyond the operand, then in it
};

// Which part of a row lies in the operand, where its dimension 0 begins at `at`.
Row row_along(const TensorMapValues& map, int64_t at) {
  const int64_t width = map.element_bytes();
  const int64_t first = std::clamp<int64_t>(-at, 0, map.box[0]);
  const int64_t last = std::clamp<int64_t>(map.dims[0] - at, first, map.box[0]);
  return {0, (at + first) * width, first * width, (last - first) * width};
}

std::vector<Row> rows_of(const TensorMapValues& map, const int* at) {
  const int64_t row_bytes = map.box[0] * map.element_bytes();
  std::vector<Row> rows(static_cast<size_t>(map.box_bytes() / row_bytes), row_along(map, at[0]));
  for (size_t r = 0; r < rows.size(); ++r) {
    Row& row = rows[r];
    row.begin = static_cast<int64_t>(r) * row_bytes;
    bool inside = true;
    int64_t rest = static_cast<int64_t>(r);
    for (size_t d = 1; d < static_cast<size_t>(map.rank); ++d) {
      const int64_t place = at[d] + rest % map.box[d];
      rest /= map.box[d];
      inside &= place >= 0 && place < map.dims[d];
      row.operand += place * map.strides[d];
    }
    if (!inside) row.inside = 0;
  }
  return rows;
}

// The rows of windows: one for each pixel, from one place of the bounding box to the next.
std::vector<Row> rows_of_pixels(const TensorMapValues& map, const int* at, const int* offsets) {
  const auto image = static_cast<size_t>(map.rank) - 1;  // the dimension of the images' number
  std::array<int64_t, kMaxTensorRank> place = {};
  std::copy(at, at + map.rank, place.begin());
  const int64_t row_bytes = map.box[0] * map.element_bytes();
  std::vector<Row> rows(static_cast<size_t>(map.box[1]), row_along(map, at[0]));
  for (size_t r = 0; r < rows.size(); ++r) {
    Row& row = rows[r];
    row.begin = static_cast<int64_t>(r) * row_bytes;
    bool inside = true;
    for (size_t d = 1; d <= image; ++d) {
      const int64_t there = place[d] + (d < image ? offsets[d - 1] : 0);
      inside &= there >= 0 && there < map.dims[d];
      row.operand += there * map.strides[d];
    }
    if (!inside) row.inside = 0;
    size_t d = 1;
    for (; d < image; ++d) {
      place[d] += map.pixels->steps[d - 1];
      if (place[d] <= map.dims[d] - 1 + map.pixels->upper[d - 1]) break;
      place[d] = map.pixels->lower[d - 1];
    }
    if (d == image) ++place[image];
  }
  return rows;
}

// Offsets in the box, in which the bytes of a row lie as the swizzle of their addresses says.
class Box {
 public:
  Box(const TensorMapValues& map, Place shared)
      : swizzle_(map.swizzle), begin_(shared.array.begin + shared.offset) {}
  size_t at(int64_t offset) const {
    return static_cast<size_t>(swizzled(swizzle_, begin_ + offset) - begin_);
  }

 private:
  TensorSwizzle swizzle_;
  int64_t begin_;
};

void check_box(const tw_emu_tensor_map& map, int rank, Place shared, const char* verb, int line,
               bool is_windows = false) {
  const TensorMapValues& values = map.values;
  if (values.pixels.has_value() != is_windows) {
    memory_fault(FaultKind::BadCopy, *map.array, 0, line,
                 fmt::format("{} {} by the tensor map of {}, which is one of {}", verb,
                             is_windows ? "windows" : "a TMA tile", map.array->name,
                             is_windows ? "tiles" : "windows"));
  }
  if (rank != values.rank) {
    memory_fault(FaultKind::BadCopy, *map.array, 0, line,
                 fmt::format("{} a TMA tile in {} dimensions by the tensor map of {}, which has {}",
                             verb, rank, map.array->name, values.rank));
  }
  if (shared.array.storage->space != Space::Shared) {
    memory_fault(FaultKind::BadCopy, shared.array, shared.offset, line,
                 fmt::format("{} a TMA tile at {}, which is not in shared memory", verb,
                             name_place(shared.array, shared.offset, 1)));
  }
  const int64_t begin = shared.array.begin + shared.offset;
  if (begin % kBoxAlignment != 0) {
    memory_fault(
        FaultKind::Misaligned, shared.array, shared.offset, line,
        fmt::format("{} a TMA tile at {}, {} bytes into shared memory: no multiple of {}", verb,
                    name_place(shared.array, shared.offset, 1), begin, kBoxAlignment));
  }
}

// The place of a window's first pixel is one of the bounding box, from which the others follow; offsets
// are numbers of as many bits as the corners of the box.
void check_pixels(const tw_emu_tensor_map& map, const int* at, const int* offsets, int line) {
  const TensorMapValues& values = map.values;
  const int64_t most = most_pixel_offset(values);
  for (int d = 1; d + 1 < values.rank; ++d) {
    const auto x = static_cast<size_t>(d - 1);
    const int64_t lower = values.pixels->lower[x], step = values.pixels->steps[x],
                  last = values.dims[x + 1] - 1 + values.pixels->upper[x];
    if (at[d] < lower || at[d] > last || (at[d] - lower) % step != 0) {
      memory_fault(
          FaultKind::BadCopy, *map.array, 0, line,
          fmt::format("loads windows of {} from {} along dimension {}; its bounding box has "
                      "{} to {} in steps of {}",
                      map.array->name, at[d], d, lower, last, step));
    }
    if (offsets[x] < 0 || offsets[x] > most) {
      memory_fault(FaultKind::BadCopy, *map.array, 0, line,
                   fmt::format("loads windows of {} with an offset of {} along dimension {}; there "
                               "may be 0 to {}",
                               map.array->name, offsets[x], d, most));
    }
  }
}

// Takes the bytes of these rows of a box.
BulkCopy take_rows(Memory& memory, ThreadState& by, const tw_emu_tensor_map& map,
                   const std::vector<Row>& rows, Place to, int line) {
  const int64_t bytes = map.values.box_bytes();
  memory.begin_bulk_write(by, to.array, to.offset, bytes, line);
  BulkCopy copy;
  copy.by = by.id;
  copy.line = line;
  copy.stretches = {{&to.array, to.offset, bytes}};
  copy.bytes.assign(static_cast<size_t>(bytes), 0);
  const Box box(map.values, to);
  std::vector<unsigned char> taken;
  for (const Row& row : rows) {
    taken.resize(static_cast<size_t>(row.inside));
    if (row.inside == 0) continue;
    memory.bulk_read(by, *map.array, row.operand, row.inside, taken.data(), line);
    for (int64_t i = 0; i < row.inside; ++i) {
      copy.bytes[box.at(row.begin + row.before + i)] = taken[static_cast<size_t>(i)];
    }
  }
  return copy;
}

}  // namespace

BulkCopy load_box(Memory& memory, ThreadState& by, const tw_emu_tensor_map& map, int rank,
                  const int* at, Place to, int line) {
  check_box(map, rank, to, "loads", line);
  return take_rows(memory, by, map, rows_of(map.values, at), to, line);
}

BulkCopy load_windows(Memory& memory, ThreadState& by, const tw_emu_tensor_map& map, int rank,
                      const int* at, const int* offsets, Place to, int line) {
  check_box(map, rank, to, "loads", line, true);
  check_pixels(map, at, offsets, line);
  return take_rows(memory, by, map, rows_of_pixels(map.values, at, offsets), to, line);
}

BulkCopy store_box(Memory& memory, ThreadState& by, const tw_emu_tensor_map& map, int rank,
                   const int* at, Place from, int line) {
  check_box(map, rank, from, "stores", line);
  const int64_t bytes = map.values.box_bytes();
  BulkCopy copy;
  copy.by = by.id;
  copy.line = line;
  std::vector<unsigned char> taken(static_cast<size_t>(bytes));
  copy.sources = {{&from.array, from.offset, bytes}};
  const Box box(map.values, from);
  // Elements beyond the operand go nowhere: they may be anything.
  for (const Row& row : rows_of(map.values, at)) {
    const int64_t first = row.begin + row.before, end = first + row.inside;
    for (int64_t i = first, run = 0; i < end; i += run) {
      const size_t place = box.at(i);
      for (run = 1; i + run < end && box.at(i + run) == place + static_cast<size_t>(run);) ++run;
      memory.bulk_read(by, from.array, from.offset + static_cast<int64_t>(place), run,
                       taken.data() + place, line);
    }
  }
  for (const Row& row : rows_of(map.values, at)) {
    if (row.inside == 0) continue;
    memory.begin_bulk_write(by, *map.array, row.operand, row.inside, line);
    copy.stretches.push_back({map.array, row.operand, row.inside});
    for (int64_t i = 0; i < row.inside; ++i) {
      copy.bytes.push_back(taken[box.at(row.begin + row.before + i)]);
    }
  }
  return copy;
}

BulkCopy copy_bytes(Memory& memory, ThreadState& by, Place to, Place from, int64_t bytes,
                    int line) {
  if (to.array.storage->space == from.array.storage->space) {
    memory_fault(
        FaultKind::BadCopy, to.array, to.offset, line,
        fmt::format("copies from {} to {}; bulk copies go between global and shared memory",
                    from.array.name, to.array.name));
  }
  if (bytes < 1 || bytes % kBulkAlignment != 0) {
    memory_fault(FaultKind::BadCopy, to.array, to.offset, line,
                 fmt::format("copies {} bytes to {}; bulk copies move multiples of {}", bytes,
                             to.array.name, kBulkAlignment));
  }
  for (const Place& end : {to, from}) {
    const int64_t begin = end.array.begin + end.offset;
    if (begin % kBulkAlignment == 0) continue;
    memory_fault(FaultKind::Misaligned, end.array, end.offset, line,
                 fmt::format("copies {} bytes by {}, {} bytes into the memory: no multiple of {}",
                             bytes, name_place(end.array, end.offset, 1), begin, kBulkAlignment));
  }
  BulkCopy copy;
  copy.by = by.id;
  copy.line = line;
  copy.bytes.resize(static_cast<size_t>(bytes));
  memory.bulk_read(by, from.array, from.offset, bytes, copy.bytes.data(), line);
  memory.begin_bulk_write(by, to.array, to.offset, bytes, line);
  copy.stretches = {{&to.array, to.offset, bytes}};
  if (from.array.storage->space == Space::Shared) {
    copy.sources = {{&from.array, from.offset, bytes}};
  }
  return copy;
}

void wait_for_stores(Memory& memory, ThreadState& by, int pending, bool written, int line) {
  const size_t groups = by.store_groups.size();
  const size_t over = groups - std::min(groups, static_cast<size_t>(pending));
  for (size_t g = 0; g < over; ++g) {
    for (BulkCopy& copy : by.store_groups[g]) {
      for (const BulkCopy::Stretch& source : copy.sources) memory.end_bulk_read(by, source, line);
      copy.sources.clear();
      if (written) memory.land(copy, memory.mark_of(by, line));
    }
  }
  if (written)
    by.store_groups.erase(by.store_groups.begin(),
                          by.store_groups.begin() + static_cast<std::ptrdiff_t>(over));
}

}  // namespace tilewright::emulator
