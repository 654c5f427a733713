// CUDA text of lowered expressions. A thread computes lanes one by one; what it reads and writes of
// memory in them it does at once where they are neighbours.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "ir/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

// "float", "tw_f16", …: how an element is stored; "unsigned char" where it is a code, several of which
// may share the byte.
std::string cuda_type(ElemType elem);
// Elements that are stored as codes: those of fewer than 8 bits, and e8m0.
bool is_coded(ElemType elem);

// Prints expressions and stores over flat buffers. Values of narrow float types are C floats that
// hold an exactly rounded value.
class CudaExpr {
 public:
  CudaExpr(const Target& target, Analyzer& known) : target_(target), known_(known) {}

  // A scalar expression.
  std::string print(const Expr& e) { return text(e, 0); }
  // The same without parentheses around all of it.
  std::string print_bare(const Expr& e);
  // The statements of a store, one a line.
  std::vector<std::string> store(const StoreNode& n);

  std::string bind(const Expr& var, const std::string& wanted);  // gives a variable its name
  std::string fresh(const std::string& wanted);                  // an identifier not used yet
  // "int" or "long long": what holds the values of an index.
  std::string index_type(Interval range) const;
  std::map<const BufferNode*, std::string> buffers;  // their names

 private:
  using Lines = std::vector<std::string>;

  std::string text(const Expr& e, int lane);
  std::string immediate(const Expr& e);
  std::string cast_text(const CastNode& n, int lane);
  std::string unary_text(const UnaryNode& n, int lane);
  std::string binary_text(const BinaryNode& n, int lane);
  std::string index_text(const BinaryNode& n);
  std::string load_text(const LoadNode& n, int lane);
  // A coded element's value, and its code whatever the load's predicate.
  std::string coded_value(const LoadNode& n, int lane);
  std::string code_text(const LoadNode& n, int lane);
  std::string rounded(ElemType elem, const std::string& value) const;
  // Lane i of a vector of indices or booleans as a scalar expression, simplified.
  Expr lane_of(const Expr& v, int i);
  // A mask that is the same in all lanes as a condition; undefined for others.
  Expr uniform(const Expr& mask);
  // Where an access of `lanes` neighbours begins that one instruction can do; undefined for others.
  Expr start_of(const Buffer& b, const Expr& index);
  // An element's place in what the buffer is an array of: bytes, where several share one.
  Expr place_of(const Buffer& b, const Expr& index);
  std::string element(const Buffer& b, const Expr& index);
  std::string pointer(const Buffer& b, const Expr& index);
  std::string vector_load(const LoadNode& n, const Expr& start, const Expr& condition);
  // Declares the vectors that the loads in `e` read at once.
  void open_loads(const Expr& e, Lines& lines);
  bool async_store(const StoreNode& n, Lines& lines);
  bool vector_store(const StoreNode& n, Lines& lines);
  // Elements that stay codes, one by one.
  void code_store(const StoreNode& n, Lines& lines);
  // A register of elements for a matrix instruction, of codes that stand in one word.
  bool word_store(const StoreNode& n, Lines& lines);
  bool is_wide(const Expr& e) const;

  const Target& target_;
  Analyzer& known_;
  std::map<const ExprNode*, std::string> vars_;
  std::map<const ExprNode*, std::string> loaded_;  // loads of vectors -> their variable
  std::set<std::string> used_ = {"int",  "float",  "double", "char",  "for",  "if",
                                 "else", "return", "static", "const", "long", "short",
                                 "auto", "void",   "signed", "min",   "max",  "unsigned"};
};

}  // namespace tilewright
