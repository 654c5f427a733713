// Statements, blocks and programs.
//
//   program  = "program" name "(" params ")" dims? "{" stmt* "}"
//   stmt     = for | block | store | if | seq | evaluate | let | allocate
//
// `printer.h` documents the text of each; `verify.h` holds the table of what is legal.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/buffer.h"
#include "ir/expr.h"

namespace tilewright {

enum class StmtKind : uint8_t { For, Block, Store, If, Seq, Evaluate, Let, Allocate };

struct StmtNode;

// A shared handle of an immutable statement; null when default-constructed.
class Stmt {
 public:
  Stmt() = default;
  explicit Stmt(std::shared_ptr<const StmtNode> node) : node_(std::move(node)) {}
  bool defined() const { return node_ != nullptr; }
  const StmtNode* get() const { return node_.get(); }
  const StmtNode* operator->() const { return node_.get(); }
  inline StmtKind kind() const;
  template <class T>
  const T* as() const;
  bool same_as(const Stmt& other) const { return node_ == other.node_; }

 private:
  std::shared_ptr<const StmtNode> node_;
};

struct StmtNode {
  const StmtKind kind;

 protected:
  explicit StmtNode(StmtKind k) : kind(k) {}
};

StmtKind Stmt::kind() const { return node_->kind; }

// The way in which a loop's iterations are executed. Thread axes are those of CUDA.
enum class ForKind : uint8_t {
  Serial,
  Parallel,
  Vectorized,
  Unrolled,
  BlockX,
  BlockY,
  BlockZ,
  ThreadX,
  ThreadY,
  ThreadZ,
  Warp,
};

std::string_view name_of(ForKind kind);
std::optional<ForKind> parse_for_kind(std::string_view name);

// Annotations are plain values under a key, such as {"pipeline_stages", 3}.
using Annotation = std::variant<int64_t, std::string>;
using Annotations = std::map<std::string, Annotation>;

// The annotation "intrinsic" names a row of the intrinsic table that computes the whole loop.
struct ForNode : StmtNode {  // for var in [min, min + extent)
  static constexpr StmtKind kKind = StmtKind::For;
  const Var var;
  const Expr min, extent;
  const ForKind for_kind;
  const Annotations annotations;
  const Stmt body;
  ForNode(Var v, Expr m, Expr e, ForKind k, Annotations a, Stmt b)
      : StmtNode(kKind), var(std::move(v)), min(std::move(m)), extent(std::move(e)), for_kind(k),
        annotations(std::move(a)), body(std::move(b)) {}
};

enum class IterKind : uint8_t { Spatial, Reduce };

// A block's own iterator over [0, extent), bound to an expression of the loops around the block.
struct IterVar {
  Var var;
  Expr extent;
  IterKind kind;
  Expr binding;
};

// One computation. Its body refers only to its own iterators, and to the enclosing block's scope.
// Loops may therefore change without a change to bodies. The body runs where `predicate` holds
// (undefined: always). With reduce iterators, `init` runs before the body whenever every reduce
// iterator is at 0 (its binding at its first value).
//
// A block that has no iterators and holds other blocks is a scope; the outermost one is called
// "root". Buffers in `allocs` live from the entry of the block to its end.
struct BlockNode : StmtNode {
  static constexpr StmtKind kKind = StmtKind::Block;
  const std::string name;
  const std::vector<IterVar> iters;
  const Expr predicate;
  const std::vector<Buffer> allocs;
  const Annotations annotations;
  const Stmt init;  // may be undefined
  const Stmt body;
  BlockNode(std::string n, std::vector<IterVar> i, Expr p, std::vector<Buffer> al, Annotations an,
            Stmt in, Stmt b)
      : StmtNode(kKind), name(std::move(n)), iters(std::move(i)), predicate(std::move(p)),
        allocs(std::move(al)), annotations(std::move(an)), init(std::move(in)), body(std::move(b)) {
  }
};

struct StoreNode : StmtNode {  // buffer[indices] = value, in the lanes where `predicate` holds
  static constexpr StmtKind kKind = StmtKind::Store;
  const Buffer buffer;
  const std::vector<Expr> indices;
  const Expr value;
  const Expr predicate;  // undefined: always
  const bool is_async;   // lands only when its group is awaited
  StoreNode(Buffer b, std::vector<Expr> i, Expr v, Expr p, bool async)
      : StmtNode(kKind), buffer(std::move(b)), indices(std::move(i)), value(std::move(v)),
        predicate(std::move(p)), is_async(async) {}
};

struct IfNode : StmtNode {
  static constexpr StmtKind kKind = StmtKind::If;
  const Expr cond;
  const Stmt then_case;
  const Stmt else_case;  // may be undefined
  IfNode(Expr c, Stmt t, Stmt e)
      : StmtNode(kKind), cond(std::move(c)), then_case(std::move(t)), else_case(std::move(e)) {}
};

struct SeqNode : StmtNode {  // two or more statements, none of them a Seq
  static constexpr StmtKind kKind = StmtKind::Seq;
  const std::vector<Stmt> stmts;
  explicit SeqNode(std::vector<Stmt> s) : StmtNode(kKind), stmts(std::move(s)) {}
};

struct EvaluateNode : StmtNode {  // a built-in call for its effect
  static constexpr StmtKind kKind = StmtKind::Evaluate;
  const Expr value;
  explicit EvaluateNode(Expr v) : StmtNode(kKind), value(std::move(v)) {}
};

struct LetNode : StmtNode {  // lowered programs only
  static constexpr StmtKind kKind = StmtKind::Let;
  const Var var;
  const Expr value;
  const Stmt body;
  LetNode(Var v, Expr e, Stmt b)
      : StmtNode(kKind), var(std::move(v)), value(std::move(e)), body(std::move(b)) {}
};

struct AllocateNode : StmtNode {  // lowered programs only: no blocks remain
  static constexpr StmtKind kKind = StmtKind::Allocate;
  const Buffer buffer;
  const Stmt body;
  AllocateNode(Buffer b, Stmt s) : StmtNode(kKind), buffer(std::move(b)), body(std::move(s)) {}
};

template <class T>
const T* Stmt::as() const {
  return node_ && node_->kind == T::kKind ? static_cast<const T*>(node_.get()) : nullptr;
}

// Checked constructors; each throws IrError that names the operand that does not fit.
Stmt make_for(Var var, Expr min, Expr extent, ForKind kind, Stmt body, Annotations notes = {});
Stmt make_block(std::string name, std::vector<IterVar> iters, Stmt body, Stmt init = {},
                Expr predicate = {}, std::vector<Buffer> allocs = {}, Annotations notes = {});
Stmt make_store(Buffer buffer, std::vector<Expr> indices, Expr value, Expr predicate = {},
                bool is_async = false);
Stmt make_if(Expr cond, Stmt then_case, Stmt else_case = {});
Stmt make_seq(std::vector<Stmt> stmts);  // flattens, drops undefined ones; a single one is returned
Stmt make_evaluate(Expr value);
Stmt make_let(Var var, Expr value, Stmt body);
Stmt make_allocate(Buffer buffer, Stmt body);

enum class ParamRole : uint8_t {
  Input,   // read, given at each launch
  Weight,  // read, constant over launches: may be laid out once at load
  Output,  // written
};

struct Param {
  Buffer buffer;
  ParamRole role;
};

// A dimension that is known only at launch, within [min, max].
struct DimVar {
  Var var;
  int64_t min, max;
};

// A program: parameters, dynamic dimensions, and one statement (the block "root" until lowering).
struct Program {
  std::string name;
  std::vector<Param> params;
  std::vector<DimVar> dims;
  Stmt body;
};

std::string_view name_of(ParamRole role);

// The unit that a schedule rewrites: the main program, and one program per prepacked weight that
// lays it out once. A pack program has one Weight parameter (the operand as the user stores it). It
// has one Output, the buffer that `main` takes in the weight's place, with the same name.
struct Module {
  Program main;
  std::vector<Program> packs;
};

}  // namespace tilewright
