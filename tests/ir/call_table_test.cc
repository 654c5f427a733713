// The table of built-in calls: names, operands, and the text of each.
#include "ir/call_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ir/buffer.h"
#include "ir/interpreter/interpreter.h"
#include "ir/require.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verify.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

// A program with the call as its only statement; operands that name elements take those of A.
std::string program_with(const CallRow& row, const std::string& element) {
  std::string args;
  for (size_t a = 0; a < row.count(); ++a) {
    const bool is_value = row.operands[a].access == CallAccess::Value;
    args += (a > 0 ? ", " : "") + (is_value ? fmt::format("{}", a) : element);
  }
  return fmt::format("program p(A: u64[8] input) {{\n  {}<bool>({})\n}}\n", row.name, args);
}

TEST(CallTable, NamesAreUniqueAndParsed) {
  std::set<std::string_view> names;
  for (const CallRow& row : call_rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(name_of(row.op), row.name);
    if (!row.is_statement) continue;
    const std::string text = program_with(row, "A[3]");
    EXPECT_EQ(to_string(parse_program(text)), text);
  }
}

std::string refusal_of(const std::string& text) {
  try {
    parse_program(text);
  } catch (const IrError& e) {
    return e.what();
  }
  return "was not refused";
}

TEST(CallTable, OperandsAreCountedAndNamed) {
  EXPECT_THAT(refusal_of("program p(A: u64[8] input) { mbarrier_wait<bool>(A[0]) }"),
              HasSubstr("mbarrier_wait: expected 2 arguments, got 1"));
  EXPECT_THAT(refusal_of("program p(A: u64[8] input) { tensor_store<bool>(A[0]) }"),
              HasSubstr("tensor_store: expected 2 arguments or more, got 1"));
  for (const CallRow& row : call_rows()) {
    for (const CallOperand& o : row.operands) {
      if (o.access == CallAccess::Value) continue;
      EXPECT_THAT(refusal_of(program_with(row, "1")), HasSubstr("names no element of an array"));
    }
  }
}

TEST(CallTable, OperandsAreFoundByName) {
  const Buffer ring = make_buffer("ring", ElemType::u64, {Expr(4)});
  const Expr wait = call(ElemType::boolean, CallOp::MbarrierWait, {load(ring, {2}), Expr(1)});
  const CallNode* found = as_call(wait, CallOp::MbarrierWait);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(as_call(wait, CallOp::MbarrierArrive), nullptr);
  EXPECT_EQ(as_call(Expr(1), CallOp::MbarrierWait), nullptr);
  EXPECT_TRUE(is_int(operand_of(*found, "parity"), 1));
  EXPECT_EQ(operand_of(*found, "mbarrier").as<LoadNode>()->buffer, ring);
}

TEST(CallTable, TheInterpreterKnowsThoseOfAllTargets) {
  for (const CallRow& row : call_rows()) {
    if (!row.is_statement) continue;
    const bool is_known = row.op == CallOp::Prefetch || row.op == CallOp::Barrier ||
                          row.op == CallOp::AsyncCommit || row.op == CallOp::AsyncWait;
    NdArrays arrays;
    arrays["A"] = NdArray::random(ElemType::u64, {8}, 1);
    std::string error;
    try {
      interpret(parse_program(program_with(row, "A[3]")), arrays);
    } catch (const std::exception& e) {
      error = e.what();
    }
    EXPECT_EQ(error.empty(), is_known) << error;
    EXPECT_EQ(error.find("has no meaning to the interpreter") == std::string::npos, is_known);
  }
}

}  // namespace
}  // namespace tilewright
