#include "ir/text/printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "ir/text/lexer.h"

namespace tilewright {
namespace {

bool is_function(BinaryOp op) {
  return op == BinaryOp::FloorDiv || op == BinaryOp::FloorMod || op == BinaryOp::Min ||
         op == BinaryOp::Max;
}

// The shortest digits that read back as the same value of the type.
std::string digits_of(double value, ElemType elem) {
  constexpr int kAlwaysEnough = 17;
  for (int precision = 1; precision < kAlwaysEnough; ++precision) {
    double shorter = std::strtod(fmt::format("{:.{}g}", value, precision).c_str(), nullptr);
    if (round_to(elem, shorter) == value) return fmt::format("{}", shorter);
  }
  return fmt::format("{}", value);
}

std::string float_text(double value, Type type) {
  if (std::isnan(value)) return fmt::format("nan<{}>", to_string(type));
  if (std::isinf(value)) return fmt::format("{}inf<{}>", value > 0 ? "" : "-", to_string(type));
  std::string text = digits_of(value, type.elem);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + to_string(type);
}

// Gives each variable, or each buffer, a unique name.
class Names {
 public:
  std::string of(const void* node, const std::string& wanted) {
    auto it = names_.find(node);
    if (it != names_.end()) return it->second;
    std::string name = wanted;
    for (int i = 1; !used_.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
    return names_.emplace(node, quote_name(name)).first->second;
  }

 private:
  std::map<const void*, std::string> names_;
  std::set<std::string> used_;
};

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  std::string expr(const Expr& e);
  void stmt(const Stmt& s);
  void program(const Program& p);
  std::string take() { return std::move(out_); }
  void line(const std::string& text, const StmtNode* node = nullptr);

 private:
  std::string list(const std::vector<Expr>& items);
  std::string var(const VarNode& v) { return vars_.of(&v, v.name); }
  std::string buffer(const Buffer& b) { return buffers_.of(b.get(), b->name); }
  std::string declaration(const Buffer& b);
  std::string immediate(const Expr& e);
  std::string access(const Buffer& b, const std::vector<Expr>& indices);
  std::string notes(const Annotations& annotations);
  void for_stmt(const ForNode& n);
  void block_stmt(const BlockNode& n);
  void store_stmt(const StoreNode& n);
  void if_stmt(const IfNode& n);
  void body(const Stmt& s);
  void underline(const std::string& text);

  const PrintOptions& options_;
  Names vars_, buffers_;
  std::string out_;
  int depth_ = 0;
};

void Printer::line(const std::string& text, const StmtNode* node) {
  out_.append(depth_ * 2, ' ');
  out_ += text;
  out_ += '\n';
  if (node && std::count(options_.mark.begin(), options_.mark.end(), node)) underline(text);
}

void Printer::underline(const std::string& text) {
  out_.append(depth_ * 2, ' ');
  out_.append(text.size(), '^');
  if (!options_.note.empty()) out_ += " " + options_.note;
  out_ += '\n';
}

std::string Printer::list(const std::vector<Expr>& items) {
  std::string text;
  for (const Expr& e : items) {
    if (!text.empty()) text += ", ";
    text += expr(e);
  }
  return text;
}

std::string Printer::declaration(const Buffer& b) {
  std::string text = fmt::format("{}: {}[{}]", buffer(b), to_string(b->elem), list(b->shape));
  return text;
}

std::string Printer::access(const Buffer& b, const std::vector<Expr>& indices) {
  return fmt::format("{}[{}]", buffer(b), list(indices));
}

std::string Printer::immediate(const Expr& e) {
  if (auto* f = e.as<FloatImmNode>()) return float_text(f->value, f->type);
  int64_t value = e.as<IntImmNode>()->value;
  switch (e.type().elem) {
    case ElemType::boolean: return value ? "true" : "false";
    case ElemType::index: return std::to_string(value);
    default: return std::to_string(value) + to_string(e.type());
  }
}

std::string Printer::expr(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm: return immediate(e);
    case ExprKind::Var: return var(*e.as<VarNode>());
    case ExprKind::Cast: {
      auto* n = e.as<CastNode>();
      return fmt::format("cast<{}>({})", to_string(n->type), expr(n->value));
    }
    case ExprKind::Unary: {
      auto* n = e.as<UnaryNode>();
      bool token = n->op == UnaryOp::Neg || n->op == UnaryOp::Not;
      return token ? fmt::format("({}{})", name_of(n->op), expr(n->a))
                   : fmt::format("{}({})", name_of(n->op), expr(n->a));
    }
    case ExprKind::Binary: {
      auto* n = e.as<BinaryNode>();
      std::string a = expr(n->a), b = expr(n->b);
      if (is_function(n->op)) return fmt::format("{}({}, {})", name_of(n->op), a, b);
      return fmt::format("({} {} {})", a, name_of(n->op), b);
    }
    case ExprKind::Select: {
      auto* n = e.as<SelectNode>();
      std::string cond = expr(n->cond), t = expr(n->on_true), f = expr(n->on_false);
      return fmt::format("select({}, {}, {})", cond, t, f);
    }
    case ExprKind::Load: {
      auto* n = e.as<LoadNode>();
      std::string text = access(n->buffer, n->indices);
      return n->predicate.defined() ? fmt::format("({} if {})", text, expr(n->predicate)) : text;
    }
    case ExprKind::Ramp: {
      auto* n = e.as<RampNode>();
      return fmt::format("ramp({}, {}, {})", expr(n->base), expr(n->stride), n->type.lanes);
    }
    case ExprKind::Broadcast: {
      auto* n = e.as<BroadcastNode>();
      return fmt::format("broadcast({}, {})", expr(n->value), n->type.lanes);
    }
    case ExprKind::Call: {
      auto* n = e.as<CallNode>();
      return fmt::format("{}<{}>({})", name_of(n->op), to_string(n->type), list(n->args));
    }
  }
  return "";
}

std::string Printer::notes(const Annotations& annotations) {
  if (annotations.empty()) return "";
  std::string text;
  for (const auto& [key, value] : annotations) {
    if (!text.empty()) text += ", ";
    text += quote_name(key) + ": ";
    if (auto* i = std::get_if<int64_t>(&value)) {
      text += std::to_string(*i);
    } else {
      text += quote_string(std::get<std::string>(value));
    }
  }
  return " @{" + text + "}";
}

void Printer::body(const Stmt& s) {
  ++depth_;
  stmt(s);
  --depth_;
  line("}");
}

void Printer::for_stmt(const ForNode& n) {
  std::string min = expr(n.min), extent = expr(n.extent);
  std::string range = is_int(n.min, 0) ? "0.." + extent : fmt::format("{0}..{0}+{1}", min, extent);
  std::string kind = n.for_kind == ForKind::Serial ? "" : " " + std::string(name_of(n.for_kind));
  line(fmt::format("for {} in {}{}{} {{", var(*n.var.as<VarNode>()), range, kind,
                   notes(n.annotations)),
       &n);
  body(n.body);
}

void Printer::block_stmt(const BlockNode& n) {
  std::vector<std::string> bindings;  // bindings refer to the outside, so they print before the
                                      // names
  for (const IterVar& iter : n.iters) bindings.push_back(expr(iter.binding));
  std::string iters;
  for (size_t i = 0; i < n.iters.size(); ++i) {
    const IterVar& iter = n.iters[i];
    if (i) iters += ", ";
    iters += fmt::format("{}: {} {} = {}", var(*iter.var.as<VarNode>()),
                         iter.kind == IterKind::Spatial ? "spatial" : "reduce", expr(iter.extent),
                         bindings[i]);
  }
  std::string where =
      n.predicate.defined() ? fmt::format(" where {}", expr(n.predicate)) : std::string();
  line(fmt::format("block {}({}){}{} {{", quote_name(n.name), iters, where, notes(n.annotations)),
       &n);
  ++depth_;
  for (const Buffer& b : n.allocs) {
    line(fmt::format("alloc {} {}", declaration(b), name_of(b->scope)));
  }
  if (n.init.defined()) {
    line("init {");
    body(n.init);
  }
  stmt(n.body);
  --depth_;
  line("}");
}

void Printer::store_stmt(const StoreNode& n) {
  std::string where =
      n.predicate.defined() ? fmt::format(" if {}", expr(n.predicate)) : std::string();
  line(fmt::format("{} {} {}{}", access(n.buffer, n.indices), n.is_async ? "<-async" : "=",
                   expr(n.value), where),
       &n);
}

void Printer::if_stmt(const IfNode& n) {
  line(fmt::format("if {} {{", expr(n.cond)), &n);
  if (!n.else_case.defined()) return body(n.then_case);
  ++depth_;
  stmt(n.then_case);
  --depth_;
  line("} else {");
  body(n.else_case);
}

void Printer::stmt(const Stmt& s) {
  switch (s.kind()) {
    case StmtKind::For: return for_stmt(*s.as<ForNode>());
    case StmtKind::Block: return block_stmt(*s.as<BlockNode>());
    case StmtKind::Store: return store_stmt(*s.as<StoreNode>());
    case StmtKind::If: return if_stmt(*s.as<IfNode>());
    case StmtKind::Seq:
      for (const Stmt& child : s.as<SeqNode>()->stmts) stmt(child);
      return;
    case StmtKind::Evaluate: return line(expr(s.as<EvaluateNode>()->value), s.get());
    case StmtKind::Let: {
      auto* n = s.as<LetNode>();
      std::string value = expr(n->value);
      line(fmt::format("let {}: {} = {} {{", var(*n->var.as<VarNode>()), to_string(n->var.type()),
                       value),
           n);
      return body(n->body);
    }
    case StmtKind::Allocate: {
      auto* n = s.as<AllocateNode>();
      const int64_t row = n->buffer->swizzled_row;
      line(fmt::format("allocate {} {}{} {{", declaration(n->buffer), name_of(n->buffer->scope),
                       row > 0 ? fmt::format(" swizzled({})", row) : ""),
           n);
      return body(n->body);
    }
  }
}

void Printer::program(const Program& p) {
  std::string dims;
  for (const DimVar& d : p.dims) {
    if (!dims.empty()) dims += ", ";
    dims += fmt::format("{}: {}..{}", var(*d.var.as<VarNode>()), d.min, d.max);
  }
  std::string params;
  for (const Param& param : p.params) {
    if (!params.empty()) params += ", ";
    params += declaration(param.buffer) + " " + std::string(name_of(param.role));
  }
  std::string head = fmt::format("program {}({})", quote_name(p.name), params);
  line(dims.empty() ? head + " {" : fmt::format("{} dims({}) {{", head, dims));
  body(p.body);
}

}  // namespace

std::string to_string(const Expr& e) {
  if (!e.defined()) return "<undefined>";
  PrintOptions options;
  return Printer(options).expr(e);
}

std::string to_string(const Stmt& s, const PrintOptions& options) {
  Printer printer(options);
  if (s.defined()) printer.stmt(s);
  return printer.take();
}

std::string to_string(const Program& p, const PrintOptions& options) {
  Printer printer(options);
  printer.program(p);
  return printer.take();
}

std::string to_string(const Module& m, const PrintOptions& options) {
  std::string text = to_string(m.main, options);
  for (const Program& pack : m.packs) text += "\n" + to_string(pack, options);
  return text;
}

}  // namespace tilewright
