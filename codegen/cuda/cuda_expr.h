// CUDA text of lowered expressions. A thread computes lanes one by one. It reads and writes memory
// for neighbouring lanes at once.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/reserved_words.h"
#include "ir/arith/simplify.h"
#include "ir/stmt.h"
#include "kernel/target.h"

namespace tilewright {

// The type of a stored element: "float", "tw_f16", …; "unsigned char" for a code, several of which
// may share the byte.
std::string cuda_type(ElemType elem);
// True for elements that are stored as codes: those of fewer than 8 bits, and e8m0.
bool is_coded(ElemType elem);

// The swizzle of an array's rows in shared memory. In an element's index, the `bits` bits from
// `base` on are XORed with the bits `shift` above them (tw_swizzle).
struct Swizzle {
  int bits, base, shift;
  // The index of the element that would have index `place` without the swizzle.
  int64_t of(int64_t place) const {
    return place ^ (place >> shift & ((int64_t{1} << bits) - 1) << base);
  }
  // Elements this far apart move alike.
  int64_t period() const { return int64_t{1} << (bits + base + shift); }
};
// The swizzle of a buffer's rows (BufferNode::swizzled_row); nothing where they have none. It puts
// 16-byte vectors at the same position of eight neighbouring rows into different banks. Rows have
// 32 bytes or more.
std::optional<Swizzle> swizzle_of(const Buffer& buffer);

// Prints expressions and stores over flat buffers. Values of narrow float types are C floats that
// hold an exactly rounded value.
class CudaExpr {
 public:
  CudaExpr(const Target& target, Analyzer& known) : target_(target), known_(known) {}

  // A scalar expression.
  std::string print(const Expr& e) { return text(e, 0); }
  // The same without parentheses around all of it.
  std::string print_bare(const Expr& e);
  // An element of a buffer.
  std::string element(const Buffer& b, const Expr& index);
  // The statements of a store, one per line.
  std::vector<std::string> store(const StoreNode& n);

  std::string bind(const Expr& var, const std::string& wanted);  // gives a variable its name
  // The same for one that is less than `extent`.
  std::string bind(const Expr& var, const std::string& wanted, int64_t extent);
  std::string fresh(const std::string& wanted);  // an identifier not used yet
  // Quotients of the variable by multiples of `divisor` are printed by `name`, which holds
  // var / divisor.
  void name_quotient(const Expr& var, int64_t divisor, const std::string& name) {
    quotient_ = {var, divisor, name};
  }
  // That name where something printed has it; empty where nothing does.
  std::string used_quotient() const { return quotient_.is_used ? quotient_.name : ""; }
  // The type that holds the values of an index: "int" or "long long".
  std::string index_type(Interval range) const;
  std::map<const BufferNode*, std::string> buffers;  // their names
  // The index in the array of the element with this index: the same, or swizzled where the buffer
  // is.
  std::string place(const Buffer& b, const std::string& index) const;
  // The same of an index whose terms are known: those that move all elements alike stay outside of the
  // swizzle. So unrolled accesses share a few swizzled places, at constant distances.
  std::string place(const Buffer& b, const Expr& index);
  // An element's index in the buffer's array: in bytes, where several share one.
  Expr place_of(const Buffer& b, const Expr& index) const;
  // Whether elements `distance` apart keep this distance in the array, wherever they are.
  bool keeps_place(const Buffer& b, int64_t distance) const;

 private:
  using Lines = std::vector<std::string>;

  std::string text(const Expr& e, int lane);
  std::string immediate(const Expr& e);
  std::string cast_text(const CastNode& n, int lane);
  // A value that is rounded to 16 bits: an exponential takes the function of fewest instructions,
  // and a quotient the divisor's reciprocal, which many may share.
  std::string text_to_round(const Expr& e, int lane);
  std::string power_text(const BinaryNode& difference, int lane, const Expr& mask = {});
  std::string register_text(const Expr& e, int lane, const Expr& mask);
  // A value as an element of another type than it is computed in.
  std::string stored_text(const Expr& e, ElemType elem, int lane);
  std::string unary_text(const UnaryNode& n, int lane);
  std::string binary_text(const BinaryNode& n, int lane);
  std::string index_text(const BinaryNode& n);
  // The text of a quotient with a name; empty for others.
  std::string named_quotient(const BinaryNode& n);
  std::string load_text(const LoadNode& n, int lane);
  // A coded element's value, and its code regardless of the load's predicate.
  std::string coded_value(const LoadNode& n, int lane);
  std::string code_text(const LoadNode& n, int lane);
  std::string rounded(ElemType elem, const std::string& value) const;
  // Lane i of a vector of indices or booleans as a scalar expression, simplified.
  Expr lane_of(const Expr& v, int i);
  // A mask that is the same in all lanes, as a condition; undefined for others.
  Expr uniform(const Expr& mask);
  // The start of an access to `lanes` neighbours that one instruction can do; undefined for others.
  Expr start_of(const Buffer& b, const Expr& index);
  std::string pointer(const Buffer& b, const Expr& index);
  std::string vector_load(const LoadNode& n, const Expr& start, const Expr& condition);
  class GuardedLoads;
  // Declares the vectors that the loads in `e` read at once.
  void open_loads(const Expr& e, Lines& lines);
  // Declares one of them, which is read where `guard` holds too. `opened`: variables by the text of
  // their source.
  void open_load(const LoadNode& n, const Expr& guard, Lines& lines,
                 std::map<std::string, std::string>& opened);
  bool async_store(const StoreNode& n, Lines& lines);
  bool vector_store(const StoreNode& n, Lines& lines);
  // Stores elements that stay codes, one by one.
  void code_store(const StoreNode& n, Lines& lines);
  // Stores a packed 32-bit register of elements for a matrix instruction, made of codes in one
  // word.
  bool word_store(const StoreNode& n, Lines& lines);
  bool is_wide(const Expr& e) const;

  struct Quotient {
    Expr var;
    int64_t divisor = 1;
    std::string name;
    bool is_used = false;
  };

  const Target& target_;
  Analyzer& known_;
  Quotient quotient_;
  std::map<const ExprNode*, std::string> vars_;
  std::map<const ExprNode*, std::string> loaded_;  // loads of vectors -> their variable
  std::set<std::string> used_ = reserved_words();  // identifiers in use, and reserved words
};

// Whether a value of f32 is rounded to a float of at most 16 bits.
bool rounds_to_half(const CastNode& n);

}  // namespace tilewright
