// C text of lowered expressions.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "codegen/c/c_tiles.h"
#include "codegen/c/c_types.h"
#include "ir/arith/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

// The representation of a buffer in the generated code.
struct CBuffer {
  std::string name;
  std::string element_type;  // "const float": the type that `name` points to
  // Variables that hold the elements at constant indices: first index -> lanes. Empty when `name`
  // is an array or a pointer.
  std::map<int64_t, int> variables;
  // The variables hold elements in stored form, as operands of an intrinsic.
  bool as_stored = false;
  // The variables are tile registers, the n-th one register n.
  bool tiles = false;
  // A weight, which stays the same over launches.
  bool weight = false;
};

// Lane i of a vector of indices or booleans as a scalar expression; undefined for others.
Expr lane_of(const Expr& v, int i);

// Splits an index into its variable part and its constant offset.
std::pair<Expr, int64_t> split_constant(const Expr& index);

// Prints expressions over flat buffers. Values of narrow float types are C floats that hold an
// exactly rounded value.
class CExpr {
 public:
  CExpr(Prelude& prelude, Analyzer& known);

  std::string print(const Expr& e);
  std::string store(const StoreNode& n);  // without the final semicolon

  // Declares pointers to addresses that several accesses of these stores share. Each address is
  // then written, and computed by the compiler, once. The declarations go before the stores.
  // Printing uses the pointers until close_pointers().
  std::vector<std::string> open_pointers(const std::vector<const StoreNode*>& stores);
  void close_pointers() {
    pointers_.clear();
    held_.clear();
    factors_.clear();
    tile_operands_.forget();
  }
  // Declares registers for vectors that two or three of these stores load from one place; `loop` is the one
  // right around them, null if there is none. GCC would load such a vector for each use: for a value that
  // memory holds as well its register allocator prefers memory (REG_EQUIV, ira.c). The result has the
  // declarations that go before each store. Printing uses the registers until close_pointers().
  std::vector<std::vector<std::string>> open_loads(const std::vector<const StoreNode*>& stores,
                                                   const ForNode* loop);
  // Statements that fetch weights before they are read, by the annotation kFetchAhead of the innermost of these loops.
  // They go to the front of its body.
  std::vector<std::string> fetches_ahead(const std::vector<const ForNode*>& loops);
  // Operands of products of tiles come into the registers behind the first `accumulators` ones.
  void hold_tiles(size_t accumulators) { tile_operands_.reset(static_cast<int>(accumulators)); }

  std::string bind(const Expr& var, const std::string& wanted);  // gives a variable its C name
  std::string fresh(const std::string& wanted);                  // a C identifier not used yet
  std::map<const BufferNode*, CBuffer> buffers;

 private:
  // Cache lines of a weight, counted from the element at `base`.
  struct WeightLines {
    Buffer buffer;
    Expr base;
    std::set<int64_t> lines;
  };

  // Buffer, text of the first index, lanes.
  using LoadKey = std::tuple<const BufferNode*, std::string, int>;

  bool fills_register(const LoadNode& n) const;
  LoadKey key_of(const LoadNode& n);
  std::string held(const LoadNode& n);  // the register of open_loads(), or ""
  std::vector<WeightLines> weights_read(const ForNode& loop);
  std::string immediate(const Expr& e);
  std::string spread_text(const BroadcastNode& n);
  std::string cast_text(const CastNode& n);
  std::string unary_text(const UnaryNode& n);
  std::string binary_text(const BinaryNode& n, const Expr& e);
  std::string index_comparison(const BinaryNode& n);
  std::string division(const BinaryNode& n);
  std::string select_text(const Expr& cond, const Expr& t, const Expr& f);
  std::string load_text(const LoadNode& n);
  std::string stored_text(const LoadNode& n);
  std::string dot_text(const CallNode& n);
  std::string lane_reduction_text(const CallNode& n);
  std::string operand_address(const Expr& operand, bool by_value);
  std::string tile_text(const StoreNode& n);
  std::string tile_product(const std::string& sum, const CallNode& n);
  std::string tile_register(const Buffer& b, const Expr& index);
  std::string lanes_of(const std::vector<std::string>& items, Type type);
  std::string rounded(ElemType elem, int lanes, const std::string& value);
  std::string decode(ElemType elem, int lanes, const std::string& memory);
  std::string encode(ElemType elem, int lanes, const std::string& value);
  // The number of leading lanes that a mask enables; "" when the mask has another form.
  std::string head_lanes(const Expr& mask);
  std::string element(const Buffer& b, const Expr& index);
  std::string stored(const Buffer& b, const std::string& index, const Expr& scalar = {});
  std::string put(const Buffer& b, const std::string& index, const std::string& bits);
  std::string packed_load(const LoadNode& n, const std::string& suffix);
  std::string codes(const CastNode& n);
  std::optional<std::pair<Expr, int>> words_of(const LoadNode& n);
  void count_factors(const std::vector<const StoreNode*>& stores);
  std::string scaled_product(const Expr& e);
  std::string bits(const StoreNode& n);
  std::string padded_copy(const StoreNode& n);
  std::string part_or_zeros(const Expr& first, const Expr& chosen, const Expr& otherwise);
  std::string table_load(const LoadNode& n);
  std::string window(const LoadNode& n);
  std::string every_second(const LoadNode& n);
  std::string neighbours(const LoadNode& n);
  std::string lane(const Expr& vector, int i);
  std::string splat(const std::string& scalar, Type type);
  bool is_bound(const Expr& e) const;

  Prelude& prelude_;
  Analyzer& known_;
  std::map<const ExprNode*, std::string> vars_;
  // (buffer, text of the index without its constant) -> pointer
  std::map<std::pair<const BufferNode*, std::string>, std::string> pointers_;
  std::map<LoadKey, std::string> held_;
  // (buffer, text of the index) of codes -> texts of the factors that these stores multiply them
  // with
  std::map<std::pair<const BufferNode*, std::string>, std::set<std::string>> factors_;
  std::set<std::string> used_;  // identifiers in use, and reserved words
  TileOperands tile_operands_;
};

}  // namespace tilewright
