// Expressions: immutable, shared, made only by checked constructors.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/type.h"

namespace tilewright {

enum class ExprKind : uint8_t {
  IntImm,
  FloatImm,
  Var,
  Cast,
  Unary,
  Binary,
  Select,
  Load,
  Ramp,
  Broadcast,
  Call,
};

enum class UnaryOp : uint8_t { Neg, Not, Exp, Log, Sqrt, Rsqrt, Tanh, Erf, Abs, Floor, Round };

// FloorDiv and FloorMod round toward minus infinity and are the only integer divisions; Div is for
// floats. Comparisons give boolean lanes.
enum class BinaryOp : uint8_t {
  Add,
  Sub,
  Mul,
  Div,
  FloorDiv,
  FloorMod,
  Min,
  Max,
  And,
  Or,
  EQ,
  NE,
  LT,
  LE,
  GT,
  GE,
};

// Built-in calls. Calls that are statements stand inside Evaluate and have type boolean. Their
// operands are in ir/call_table.h.
enum class CallOp : uint8_t {
  Bitcast,      // (value) -> the same bits as another type of equal width
  IfThenElse,   // (cond, a, b): like Select, but evaluates only the side taken
  Dot,          // (acc, a, b): lane l is acc[l] + the sum over p of a[p] * b[l * P + p]. `a` has P
                // lanes (tiles: dot_shape.h). Products and sums, in any order, in acc's type.
  LaneSum,      // (vector, …): lane l is the sum of the lanes of argument l, in any order
  LaneMax,      // (vector, …): lane l is the largest lane of argument l
  Prefetch,     // statement (element address as a Load, locality 0..3)
  Barrier,      // statement (): all threads of the block
  AsyncCommit,  // statement (): closes the open group of copies
  AsyncWait,    // statement (n): until at most n of this thread's groups are in flight
  // Statements of GPU threads, most of them for sm_90.
  WarpBarrier,            // (): the lanes of a warp meet
  NamedBarrier,           // (number, threads): so many threads of the block meet
  ClusterBarrier,         // (): all threads of a cluster meet
  ClusterBarrierRelaxed,  // (): the same, which shows others nothing but what a fence did before
  ProxyFence,     // (): the thread's earlier accesses to shared memory come before those of copies,
                  // for whoever is told of it after this
  MbarrierFence,  // (): shows copies the mbarriers that the thread has initialized
  MbarrierInit,   // (mbarrier, arrivals): its phases take so many arrivals
  MbarrierArrive,         // (mbarrier)
  MbarrierArriveExpect,   // (mbarrier, bytes): the phase then expects so many bytes of copies, too
  MbarrierArriveCluster,  // (mbarrier, rank): arrives at the mbarrier of that block of the cluster
  MbarrierWait,           // (mbarrier, parity): until the phase of this parity has ended
  BulkLoad,  // (to, from, bytes, mbarrier): 1-D bulk copy of contiguous bytes to shared memory; the
             // mbarrier counts them. Bytes and both addresses are multiples of 16.
  TensorLoad,  // (to, operand, mbarrier, blocks, tile…): TMA load, which the mbarrier counts.
  // Multicast: to the same place of so many blocks of the cluster, each with its mbarrier.
  TensorLoadIm2col,  // the same through an im2col map
  TensorStore,       // (from, operand, tile…): TMA store, in a bulk group of its own
  StoreWait,  // (groups): until at most so many of the thread's TMA stores still read shared memory
  RaiseRegisters,  // (registers): the warpgroup waits for so many per thread
  LowerRegisters,  // (registers): the warpgroup keeps so many per thread
};

struct ExprNode;

// A shared handle of an immutable expression; null when default-constructed.
class Expr {
 public:
  Expr() = default;
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  Expr(int value);      // an index immediate
  Expr(int64_t value);  // an index immediate

  bool defined() const { return node_ != nullptr; }
  const ExprNode* get() const { return node_.get(); }
  const ExprNode* operator->() const { return node_.get(); }
  inline Type type() const;
  inline ExprKind kind() const;
  // The node as a T, or null when it has another kind: `if (auto* v = e.as<VarNode>())`.
  template <class T>
  const T* as() const;
  // Identity of the node, not equality of meaning: see equal() in ir/compare.h.
  bool same_as(const Expr& other) const { return node_ == other.node_; }

 private:
  std::shared_ptr<const ExprNode> node_;
};

struct ExprNode {
  const ExprKind kind;
  const Type type;

 protected:
  ExprNode(ExprKind k, Type t) : kind(k), type(t) {}
};

Type Expr::type() const { return node_->type; }
ExprKind Expr::kind() const { return node_->kind; }

// A variable is its node: two variables of the same name differ.
class Var : public Expr {
 public:
  Var() = default;
  explicit Var(std::string name, Type type = ElemType::index);
  // Requires that `e` is a variable.
  explicit Var(const Expr& e);
  const std::string& name() const;
};

struct VarNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::Var;
  const std::string name;
  VarNode(std::string n, Type t) : ExprNode(kKind, t), name(std::move(n)) {}
};

struct BufferNode;
using Buffer = std::shared_ptr<const BufferNode>;

struct IntImmNode : ExprNode {  // an integer, index or boolean constant
  static constexpr ExprKind kKind = ExprKind::IntImm;
  const int64_t value;
  IntImmNode(Type t, int64_t v) : ExprNode(kKind, t), value(v) {}
};

struct FloatImmNode : ExprNode {  // already rounded to its type
  static constexpr ExprKind kKind = ExprKind::FloatImm;
  const double value;
  FloatImmNode(Type t, double v) : ExprNode(kKind, t), value(v) {}
};

struct CastNode : ExprNode {  // conversion of the value, lane by lane
  static constexpr ExprKind kKind = ExprKind::Cast;
  const Expr value;
  CastNode(Type t, Expr v) : ExprNode(kKind, t), value(std::move(v)) {}
};

struct UnaryNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::Unary;
  const UnaryOp op;
  const Expr a;
  UnaryNode(UnaryOp o, Expr x) : ExprNode(kKind, x.type()), op(o), a(std::move(x)) {}
};

struct BinaryNode : ExprNode {  // both sides have the same type
  static constexpr ExprKind kKind = ExprKind::Binary;
  const BinaryOp op;
  const Expr a, b;
  BinaryNode(Type t, BinaryOp o, Expr x, Expr y)
      : ExprNode(kKind, t), op(o), a(std::move(x)), b(std::move(y)) {}
};

struct SelectNode : ExprNode {  // both sides may be evaluated; a Load in the side not taken is not
  static constexpr ExprKind kKind = ExprKind::Select;  // performed: a select may guard a load
  const Expr cond, on_true, on_false;
  SelectNode(Expr c, Expr t, Expr f)
      : ExprNode(kKind, t.type()), cond(std::move(c)), on_true(std::move(t)),
        on_false(std::move(f)) {}
};

// The element of `buffer` at `indices`, one index per dimension. After vectorization one index may
// have lanes; lanes whose `predicate` is false read as zero. An undefined predicate is always true.
struct LoadNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::Load;
  const Buffer buffer;
  const std::vector<Expr> indices;
  const Expr predicate;
  LoadNode(Type t, Buffer b, std::vector<Expr> i, Expr p)
      : ExprNode(kKind, t), buffer(std::move(b)), indices(std::move(i)), predicate(std::move(p)) {}
};

struct RampNode : ExprNode {  // the `lanes` values base, base + stride, …
  static constexpr ExprKind kKind = ExprKind::Ramp;
  const Expr base, stride;
  RampNode(Expr b, Expr s, int lanes)
      : ExprNode(kKind, b.type().with_lanes(lanes)), base(std::move(b)), stride(std::move(s)) {}
};

struct BroadcastNode : ExprNode {  // one scalar in every lane
  static constexpr ExprKind kKind = ExprKind::Broadcast;
  const Expr value;
  BroadcastNode(Expr v, int lanes)
      : ExprNode(kKind, v.type().with_lanes(lanes)), value(std::move(v)) {}
};

struct CallNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::Call;
  const CallOp op;
  const std::vector<Expr> args;
  CallNode(Type t, CallOp o, std::vector<Expr> a) : ExprNode(kKind, t), op(o), args(std::move(a)) {}
};

template <class T>
const T* Expr::as() const {
  return node_ && node_->kind == T::kKind ? static_cast<const T*>(node_.get()) : nullptr;
}

// Checked constructors. Each throws IrError that names the operand whose type does not fit.
// Binary constructors broadcast a scalar side to the lanes of the other and fold no constants.
Expr make_int(Type type, int64_t value);   // every lane; integer, index and boolean types
Expr make_float(Type type, double value);  // rounded to the type
Expr make_const(Type type, double value);  // make_int or make_float by the type
Expr make_bool(bool value);
Expr cast(Type type, Expr value);  // no node when the type is the same
Expr unary(UnaryOp op, Expr a);
Expr binary(BinaryOp op, Expr a, Expr b);
Expr select(Expr cond, Expr on_true, Expr on_false);
Expr load(Buffer buffer, std::vector<Expr> indices, Expr predicate = {});
Expr ramp(Expr base, Expr stride, int lanes);
Expr broadcast(Expr value, int lanes);  // no node when lanes is 1
Expr call(Type type, CallOp op, std::vector<Expr> args);

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);  // floats only
Expr operator-(Expr a);
Expr operator!(Expr a);
Expr operator&&(Expr a, Expr b);
Expr operator||(Expr a, Expr b);
Expr operator<(Expr a, Expr b);
Expr operator<=(Expr a, Expr b);
Expr operator>(Expr a, Expr b);
Expr operator>=(Expr a, Expr b);
Expr floordiv(Expr a, Expr b);
Expr floormod(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr eq(Expr a, Expr b);
Expr ne(Expr a, Expr b);

// The value of an IntImm, or nothing.
std::optional<int64_t> as_int(const Expr& e);
bool is_int(const Expr& e, int64_t value);
// The identity of a reduction: 0 for a sum, the lowest value of the type for max, the highest for
// min.
enum class Reducer : uint8_t { None, Sum, Max, Min };
Expr identity_of(Reducer reducer, Type type);
Expr combine(Reducer reducer, Expr a, Expr b);

std::string_view name_of(UnaryOp op);
bool is_comparison(BinaryOp op);
std::string_view name_of(BinaryOp op);  // the operator's token, or its function name
std::string_view name_of(CallOp op);
std::string_view name_of(Reducer reducer);

}  // namespace tilewright
