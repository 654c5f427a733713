// Expressions compiled for fast repeated evaluation. Internal to the interpreter.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "ir/interpreter/interpreter_frame.h"

namespace tilewright::interp {

// An expression whose variables and buffers are slots of a frame.
class ExprCode {
 public:
  explicit ExprCode(int lanes) : lanes_(lanes) {}
  virtual ~ExprCode() = default;
  int lanes() const { return lanes_; }

  // Writes `lanes` values. `mask` has one byte per lane (null: all lanes on). Lanes that are off
  // perform no load and may hold anything. A scalar has a mask of one byte. Throws Fault.
  virtual void eval(const Frame& f, const uint8_t* mask, double* out) const = 0;
  // Like eval(), for a value that is stored unchanged. An active lane that reads an element that
  // was never written holds 0, and its byte in `written` is cleared. `written` arrives with every
  // lane set.
  virtual void eval_copied(const Frame& f, const uint8_t* mask, double* out,
                           uint8_t* written) const;

  double scalar(const Frame& f) const {
    double value = 0;
    eval(f, nullptr, &value);
    return value;
  }
  int64_t integer(const Frame& f) const { return static_cast<int64_t>(scalar(f)); }

 private:
  int lanes_;
};

using ExprPtr = std::unique_ptr<const ExprCode>;

// The elements of a buffer that a load or a store touches.
class AccessCode {
 public:
  AccessCode(int slot, std::vector<ExprPtr> indices, int lanes)
      : slot_(slot), indices_(std::move(indices)), lanes_(lanes) {}

  int lanes() const { return lanes_; }
  const std::shared_ptr<Storage>& storage(const Frame& f) const {
    return f.buffers[static_cast<size_t>(slot_)];
  }
  // The flat offset of each lane; -1 where the mask is off. Throws Fault for an index outside the
  // shape; `verb` names the access in its message.
  void offsets(const Frame& f, const uint8_t* mask, const char* verb, int64_t* out) const;

 private:
  int64_t scalar_offset(const Frame& f, const char* verb) const;

  int slot_;
  std::vector<ExprPtr> indices_;
  int lanes_;
};

// Slots of the variables and buffers that are visible.
struct Slots {
  std::map<const ExprNode*, int> vars;
  std::map<const BufferNode*, int> buffers;
};

// Throws Fault for a variable or a buffer without a slot.
ExprPtr compile(const Expr& e, const Slots& slots);
AccessCode compile_access(const Buffer& b, const std::vector<Expr>& indices, int lanes,
                          const Slots& slots);

}  // namespace tilewright::interp
