// The state of a running interpretation: variables in slots, buffers, asynchronous stores.
// Internal to the interpreter.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ir/stmt.h"

namespace tilewright::interp {

// The elements of one buffer, and a flag per element that says whether it was written.
struct Storage {
  Buffer buffer;
  std::vector<int64_t> shape;
  std::vector<double> own;  // empty when `data` is the caller's
  double* data = nullptr;
  std::vector<uint8_t> written;  // empty: all are written (inputs)
  bool read_only = false;
  bool is_output = false;  // of the program

  // Storage with elements of its own, none of them written.
  static std::shared_ptr<Storage> make(Buffer buffer, std::vector<int64_t> shape);
  int64_t size() const;
  // The element at a flat offset as text: "B[5, 0]".
  std::string element(int64_t offset) const;
};

// An asynchronous store in flight.
struct PendingStore {
  std::shared_ptr<Storage> storage;
  int64_t offset;
  double value;
  uint8_t written;  // 0 for the copy of an element that was never written
};

// One thread's asynchronous stores: the open group, then the committed groups, oldest first. An
// element in flight counts as never written, so that a missing wait is found.
class AsyncQueue {
 public:
  void issue(PendingStore store);
  void commit();
  // Completes the oldest groups until at most `in_flight` remain.
  void wait(int64_t in_flight);
  // Takes over another thread's groups, merging them one by one behind the first `base` groups.
  void absorb(AsyncQueue other, size_t base);
  size_t groups() const { return groups_.size(); }

 private:
  std::vector<PendingStore> open_;
  std::deque<std::vector<PendingStore>> groups_;
};

// State that every frame of one interpretation shares.
struct State {
  const StmtNode* at = nullptr;  // the statement being executed
};

// The variables and buffers that one thread sees. A copy shares the buffers that were allocated
// before it was made.
struct Frame {
  std::vector<double> vars;  // lanes of vector variables stand side by side
  std::vector<std::shared_ptr<Storage>> buffers;
  AsyncQueue async;
  State* state = nullptr;
};

// An error that stops an interpretation, with the values of the variables at that point.
struct Fault {
  std::string message;
  std::vector<double> vars;
};

}  // namespace tilewright::interp
