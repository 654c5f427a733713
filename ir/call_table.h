// The built-in calls as a table: the name of each, its operands, and how it uses them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "ir/expr.h"

namespace tilewright {

/// How a call uses an operand. All but values are Loads: an element of an array, which is only
/// named there.
enum class CallAccess : uint8_t {
  Value,     ///< its value is taken
  Address,   ///< nothing but its address is taken
  Sync,      ///< an mbarrier
  Read,      ///< memory from the element on is read
  Write,     ///< memory from the element on is written
  MapRead,   ///< a tensor map of the array is read through; the element tells nothing
  MapWrite,  ///< a tensor map of the array is written through
};

struct CallOperand {
  std::string_view name;
  CallAccess access = CallAccess::Value;
};

struct CallRow {
  CallOp op;
  std::string_view name;
  std::array<CallOperand, 4> operands = {};  ///< those without a name are none
  std::string_view rest = {};                ///< further values; empty where there are none
  bool is_statement = true;                  ///< stands inside Evaluate and has type boolean

  size_t count() const;
};

/// All rows, in the order of CallOp.
std::span<const CallRow> call_rows();
const CallRow& row_of(CallOp op);
/// How a call uses its argument at this place.
CallAccess access_of(CallOp op, size_t argument);

/// The call of a statement or an expression, where it is one of this operation; null otherwise.
const CallNode* as_call(const Expr& e, CallOp op);
/// The argument that is this operand of the call's row, which has it.
const Expr& operand_of(const CallNode& call, std::string_view name);

}  // namespace tilewright
