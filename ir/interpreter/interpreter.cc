#include "ir/interpreter/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ir/interpreter/interpreter_stmt.h"
#include "ir/text/printer.h"

namespace tilewright {
namespace {

using interp::Compiler;
using interp::Fault;
using interp::Frame;
using interp::State;
using interp::Storage;

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// Collects the loops, iterators and lets around `target`, outermost first. False when `target` is
// not below `s`.
bool vars_around(const Stmt& s, const StmtNode* target, std::vector<Expr>* vars) {
  if (!s.defined()) return false;
  if (s.get() == target && s.kind() != StmtKind::Block) return true;
  size_t depth = vars->size();
  bool found = s.get() == target;
  if (auto* n = s.as<ForNode>()) {
    vars->push_back(n->var);
    found |= vars_around(n->body, target, vars);
  } else if (auto* n = s.as<BlockNode>()) {
    for (const IterVar& iter : n->iters) vars->push_back(iter.var);
    found |= vars_around(n->init, target, vars) || vars_around(n->body, target, vars);
  } else if (auto* n = s.as<IfNode>()) {
    found |= vars_around(n->then_case, target, vars) || vars_around(n->else_case, target, vars);
  } else if (auto* n = s.as<SeqNode>()) {
    found |= std::any_of(n->stmts.begin(), n->stmts.end(),
                         [&](const Stmt& child) { return vars_around(child, target, vars); });
  } else if (auto* n = s.as<LetNode>()) {
    if (n->var.type().is_scalar()) vars->push_back(n->var);
    found |= vars_around(n->body, target, vars);
  } else if (auto* n = s.as<AllocateNode>()) {
    found |= vars_around(n->body, target, vars);
  }
  if (!found) vars->resize(depth);
  return found;
}

// One interpretation of one program.
class Run {
 public:
  Run(const Program& program, NdArrays& arrays, const std::map<std::string, int64_t>& dims)
      : program_(program), arrays_(arrays), dims_(dims), compiler_(state_) {}

  void operator()() {
    try {
      execute();
    } catch (const Fault& fault) {
      fail(fault);
    }
  }

 private:
  void execute();
  void bind_dims(Frame& f, const std::vector<int>& slots);
  void bind_params(Frame& f, const std::vector<int>& slots);
  std::vector<int64_t> shape_of(const Buffer& b, const Frame& f);
  std::shared_ptr<Storage> storage_for(const Param& param, std::vector<int64_t> shape);
  void hand_out(const Frame& f, const std::vector<int>& slots);
  [[noreturn]] void fail(const Fault& fault);

  const Program& program_;
  NdArrays& arrays_;
  const std::map<std::string, int64_t>& dims_;
  State state_;
  Compiler compiler_;
};

void Run::execute() {
  std::vector<int> dim_slots, param_slots;
  for (const DimVar& d : program_.dims) dim_slots.push_back(compiler_.define(d.var));
  for (const Param& p : program_.params) param_slots.push_back(compiler_.define(p.buffer));
  interp::StmtPtr body = compiler_.compile(program_.body);
  Frame f = compiler_.frame();
  bind_dims(f, dim_slots);
  bind_params(f, param_slots);
  body->run(f);
  hand_out(f, param_slots);
}

void Run::bind_dims(Frame& f, const std::vector<int>& slots) {
  for (size_t i = 0; i < slots.size(); ++i) {
    const DimVar& d = program_.dims[i];
    auto it = dims_.find(d.var.name());
    if (it == dims_.end()) {
      throw IrError(fmt::format("interpret {}: the dimension '{}' ({}..{}) has no value",
                                program_.name, d.var.name(), d.min, d.max));
    }
    if (it->second < d.min || it->second > d.max) {
      throw IrError(fmt::format("interpret {}: the dimension '{}' is {}, outside of {}..{}",
                                program_.name, d.var.name(), it->second, d.min, d.max));
    }
    f.vars[static_cast<size_t>(slots[i])] = static_cast<double>(it->second);
  }
}

std::vector<int64_t> Run::shape_of(const Buffer& b, const Frame& f) {
  std::vector<int64_t> shape;
  for (const Expr& extent : b->shape) shape.push_back(compiler_.compile(extent)->integer(f));
  return shape;
}

void Run::bind_params(Frame& f, const std::vector<int>& slots) {
  for (size_t i = 0; i < slots.size(); ++i) {
    const Param& param = program_.params[i];
    f.buffers[static_cast<size_t>(slots[i])] = storage_for(param, shape_of(param.buffer, f));
  }
}

std::shared_ptr<Storage> Run::storage_for(const Param& param, std::vector<int64_t> shape) {
  const Buffer& b = param.buffer;
  if (param.role == ParamRole::Output) {
    auto output = Storage::make(b, std::move(shape));
    output->is_output = true;
    return output;
  }
  auto it = arrays_.find(b->name);
  if (it == arrays_.end()) {
    throw IrError(fmt::format("interpret {}: no array for the {} '{}'", program_.name,
                              name_of(param.role), b->name));
  }
  NdArray& array = it->second;
  if (array.elem != b->elem || array.shape != shape) {
    throw IrError(fmt::format("interpret {}: '{}' is {}{}, the array is {}{}", program_.name,
                              b->name, to_string(b->elem), shape_text(shape), to_string(array.elem),
                              shape_text(array.shape)));
  }
  auto storage = std::make_shared<Storage>();
  storage->buffer = b;
  storage->shape = std::move(shape);
  storage->data = array.data.data();
  storage->read_only = true;
  return storage;
}

void Run::hand_out(const Frame& f, const std::vector<int>& slots) {
  state_.at = program_.body.get();
  for (size_t i = 0; i < slots.size(); ++i) {
    if (program_.params[i].role != ParamRole::Output) continue;
    Storage& s = *f.buffers[static_cast<size_t>(slots[i])];
    auto missing = std::find(s.written.begin(), s.written.end(), 0);
    if (missing != s.written.end()) {
      throw Fault{fmt::format("{}, an element of an output, is not written",
                              s.element(missing - s.written.begin())),
                  {}};
    }
    arrays_[s.buffer->name] = {s.buffer->elem, s.shape, std::move(s.own)};
  }
}

void Run::fail(const Fault& fault) {
  std::string values;
  std::vector<Expr> vars;
  if (!fault.vars.empty() && vars_around(program_.body, state_.at, &vars)) {
    for (const Expr& v : vars) {
      auto slot = static_cast<size_t>(compiler_.var_slots().at(v.get()));
      values +=
          fmt::format("{}{} = {}", values.empty() ? "" : ", ", Var(v).name(), fault.vars.at(slot));
    }
  }
  std::string message = fault.message + (values.empty() ? "" : " (" + values + ")");
  PrintOptions options;
  options.mark = {state_.at};
  options.note = fault.message;
  throw InternalError(
      fmt::format("interpret {}: {}\n{}", program_.name, message, to_string(program_, options)));
}

}  // namespace

void interpret(const Program& program, NdArrays& arrays,
               const std::map<std::string, int64_t>& dims) {
  Run(program, arrays, dims)();
}

void interpret(const Module& module, NdArrays& arrays, const std::map<std::string, int64_t>& dims) {
  if (module.packs.empty()) return interpret(module.main, arrays, dims);
  NdArrays all = arrays;
  for (const Program& pack : module.packs) interpret(pack, all, dims);
  interpret(module.main, all, dims);
  for (const Param& param : module.main.params) {
    if (param.role != ParamRole::Output) continue;
    const std::string& name = param.buffer->name;
    arrays[name] = std::move(all.at(name));
  }
}

}  // namespace tilewright
