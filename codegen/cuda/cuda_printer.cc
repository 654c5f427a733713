// Prints lowered programs as CUDA kernels.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/ceil_div.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/cuda/cuda_cluster.h"
#include "codegen/cuda/cuda_expr.h"
#include "codegen/cuda/cuda_kernel.h"
#include "codegen/cuda/cuda_tensor_text.h"
#include "codegen/cuda/instructions/cuda_wgmma_flight.h"
#include "codegen/cuda_lowering.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int64_t kSharedAlign = 128;

int axis_of(ForKind kind) {
  int first = static_cast<int>(is_block_axis(kind) ? ForKind::BlockX : ForKind::ThreadX);
  return static_cast<int>(kind) - first;
}

class KernelPrinter {
 public:
  // The kernel's parameters are those of `buffers` that it uses.
  KernelPrinter(const Program& program, const CudaKernel& kernel,
                const std::vector<Buffer>& buffers, const Target& target)
      : program_(program), kernel_(kernel), target_(target), expr_(target, known_), maps_(buffers) {
  }

  // Prints the kernel. It waits for the launch before if `launch` is dependent, and lets the next
  // one start early if `is_followed`.
  std::string print(const std::string& entry, CudaLaunch& launch, bool is_followed);

 private:
  void line(const std::string& text) {
    text_.lines += std::string(text_.depth * 2, ' ') + text + "\n";
  }
  void lines(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) line(text);
  }
  void stmt(const Stmt& s);
  void sequence(const SeqNode& n);
  void for_stmt(const ForNode& n, const Stmt& next);
  void axis(const ForNode& n);
  void declare_warpgroup();
  void prefetch_maps();
  void instruction(const InstructionNest& nest, const ForNode& n, const Stmt& next);
  void if_stmt(const IfNode& n);
  void let_stmt(const LetNode& n);
  void store_stmt(const StoreNode& n);
  void allocate_stmt(const AllocateNode& n);
  void evaluate_stmt(const EvaluateNode& n);
  void inside(const Stmt& s);
  void tensor_copy(const TensorTransfer& copy);
  std::vector<std::string> buffer_parameters();
  std::vector<std::string> dim_parameters();
  // Whether no launch writes this one of the buffers, parameters first.
  bool is_input(size_t buffer) const {
    return buffer < program_.params.size() && program_.params[buffer].role != ParamRole::Output;
  }

  const Program& program_;
  const CudaKernel& kernel_;
  const Target& target_;
  Analyzer known_;
  CudaExpr expr_;
  TensorMaps maps_;
  CudaLaunch* launch_ = nullptr;
  Expr thread_;                // along x; undefined outside of threads
  bool aligns_boxes_ = false;  // aligns arrays to where swizzles begin
  bool needs_fences_ = false;  // fences the asynchronous proxy
  int64_t cluster_ = 1;        // blocks per cluster
  WgmmaFlight flight_;         // groups that run beside the printed statement
  Stmt next_;                  // the statement that follows it
  struct Text {
    std::string lines;
    size_t in_threads = 0;  // where the threads' body begins
    int depth = 1;
  } text_;
};

void KernelPrinter::stmt(const Stmt& s) {
  const Stmt next = std::exchange(next_, Stmt());
  switch (s.kind()) {
    case StmtKind::For: return for_stmt(*s.as<ForNode>(), next);
    case StmtKind::Store: return store_stmt(*s.as<StoreNode>());
    case StmtKind::If: return if_stmt(*s.as<IfNode>());
    case StmtKind::Seq: return sequence(*s.as<SeqNode>());
    case StmtKind::Evaluate: return evaluate_stmt(*s.as<EvaluateNode>());
    case StmtKind::Let: return let_stmt(*s.as<LetNode>());
    case StmtKind::Allocate: return allocate_stmt(*s.as<AllocateNode>());
    case StmtKind::Block: TW_ASSERT(false, "a block reached the CUDA printer");
  }
}

// Waits for a wgmma group behind the following statements that leave its registers alone.
void KernelPrinter::sequence(const SeqNode& n) {
  const bool is_ours = flight_.is_empty();
  for (size_t i = 0; i < n.stmts.size(); ++i) {
    lines(flight_.wait_for(n.stmts[i], expr_));
    next_ = i + 1 < n.stmts.size() ? n.stmts[i + 1] : Stmt();
    stmt(n.stmts[i]);
  }
  if (is_ours) lines(flight_.end(expr_));
}

void KernelPrinter::inside(const Stmt& s) {
  ++text_.depth;
  stmt(s);
  --text_.depth;
}

// A loop over an axis is the thread's position; all other statements stand in it.
void KernelPrinter::axis(const ForNode& n) {
  int place = axis_of(n.for_kind);
  bool is_block = is_block_axis(n.for_kind);
  if (is_block) {
    cluster_ = std::max(cluster_, cluster_blocks(n));
    launch_->grid[place] = n.extent;
  } else {
    launch_->block[place] = static_cast<int>(*as_int(n.extent));
  }
  known_.bind_kept(n.var, n.min, n.extent);
  if (n.for_kind == ForKind::ThreadX) thread_ = n.var;
  std::string type = expr_.index_type(known_.bounds(n.var));
  std::string var = expr_.bind(n.var, n.var.name());
  line(fmt::format("const {} {} = {}.{};", type, var, is_block ? "blockIdx" : "threadIdx",
                   "xyz"[place]));
  if (n.for_kind == ForKind::ThreadX) {
    text_.in_threads = text_.lines.size();
    if (kernel_.has_wgmma() && *as_int(n.extent) > kWarpgroup) {
      expr_.name_quotient(n.var, kWarpgroup, expr_.fresh("warpgroup"));
    }
  }
  stmt(n.body);
}

// The index of a warpgroup is in its matrix descriptors. A shuffle tells the compiler that all lanes
// of a warp have the same one, so that descriptors stay in uniform registers.
void KernelPrinter::declare_warpgroup() {
  const std::string name = expr_.used_quotient();
  if (name.empty()) return;
  text_.lines.insert(text_.in_threads,
                     fmt::format("  const int {} = __shfl_sync(0xffffffffu, {} / {}, 0);\n", name,
                                 expr_.print(thread_), kWarpgroup));
}

// One thread fetches the descriptors of TMA copies, for which the first ones would wait.
void KernelPrinter::prefetch_maps() {
  if (maps_.names().empty()) return;
  std::string text = fmt::format("  if ({} == 0) {{\n", expr_.print(thread_));
  for (const std::string& map : maps_.names())
    text += fmt::format("    tw_tensor_prefetch({});\n", map);
  text_.lines.insert(text_.in_threads, text + "  }\n");
}

void KernelPrinter::for_stmt(const ForNode& n, const Stmt& next) {
  if (is_block_axis(n.for_kind) || is_thread_axis(n.for_kind)) return axis(n);
  if (auto* nest = kernel_.instruction(n)) return instruction(*nest, n, next);
  std::string min = expr_.print(n.min);
  Expr last = known_.simplify(n.min + n.extent);
  std::string end = expr_.print(last);
  std::string type = expr_.index_type(known_.bounds(last));
  KnowledgeScope scope(known_);
  known_.bind(n.var, n.min, n.extent);
  std::string var = expr_.bind(n.var, n.var.name());
  if (n.for_kind == ForKind::Unrolled) line("#pragma unroll");
  line(fmt::format("for ({0} {1} = {2}; {1} < {3}; ++{1}) {{", type, var, min, end));
  const bool leaves_pending = leaves_wgmma_pending(n);
  if (leaves_pending) flight_.begin_pending();
  inside(n.body);
  line("}");
  if (leaves_pending) lines(flight_.end_pending(expr_));
}

void KernelPrinter::instruction(const InstructionNest& nest, const ForNode& n, const Stmt& next) {
  if (auto* wgmma = std::get_if<WgmmaNest>(&nest)) {
    return lines(flight_.group_lines(*wgmma, n, next, expr_));
  }
  if (auto* mma = std::get_if<MmaNest>(&nest)) return lines(mma_lines(*mma, expr_));
  if (auto* stored = std::get_if<StmatrixNest>(&nest)) return lines(stmatrix_lines(*stored, expr_));
  if (auto* shuffle = std::get_if<ShuffleNest>(&nest)) return lines(shuffle_lines(*shuffle, expr_));
  line(dot_line(std::get<DotNest>(nest), expr_));
}

void KernelPrinter::if_stmt(const IfNode& n) {
  line(fmt::format("if ({}) {{", expr_.print_bare(n.cond)));
  {
    KnowledgeScope scope(known_);
    known_.assume(n.cond);
    inside(n.then_case);
  }
  if (n.else_case.defined()) {
    line("} else {");
    inside(n.else_case);
  }
  line("}");
}

void KernelPrinter::let_stmt(const LetNode& n) {
  std::string value = expr_.print(n.value);
  KnowledgeScope scope(known_);
  Interval range = known_.bounds(n.value);
  known_.bind(n.var, range);
  std::string type = n.var.type() == Type(ElemType::index) ? expr_.index_type(range)
                                                           : cuda_type(n.var.type().elem);
  std::string var = expr_.bind(n.var, n.var.name());
  line(fmt::format("const {} {} = {};", type, var, value));
  stmt(n.body);
}

void KernelPrinter::store_stmt(const StoreNode& n) {
  for (const std::string& text : expr_.store(n)) line(text);
}

void KernelPrinter::evaluate_stmt(const EvaluateNode& n) {
  const CallNode& c = *n.value.as<CallNode>();
  const bool is_copying = c.op == CallOp::AsyncCommit || c.op == CallOp::AsyncWait;
  if (is_copying && !target_.gpu.has_async_copy()) return;  // its copies have landed already
  if (const auto copy = tensor_transfer(n.value)) return tensor_copy(*copy);
  // Behind the barrier, other threads' wgmma and TMA copies must see what this thread has stored
  // and copied.
  const bool meets = c.op == CallOp::Barrier || c.op == CallOp::NamedBarrier;
  const bool is_fenced = text_.lines.ends_with("tw_fence_async();\n");
  if (needs_fences_ && meets && !is_fenced) line("tw_fence_async();");
  lines(call_lines(c, expr_));
}

void KernelPrinter::tensor_copy(const TensorTransfer& copy) {
  if (target_.gpu.compute_capability < 90) {
    throw LoweringError(fmt::format("'{}' is to be copied by tensor copies, which {} does not have",
                                    copy.operand->name, target_.name));
  }
  lines(transfer_lines(copy, maps_.of(copy, expr_), expr_));
}

void KernelPrinter::allocate_stmt(const AllocateNode& n) {
  const Buffer& b = n.buffer;
  auto count = num_elements(b);
  if (!count) {
    throw LoweringError(
        fmt::format("buffer '{}' has a dynamic size; what lives inside a kernel "
                    "must have a constant one",
                    b->name));
  }
  std::string name = expr_.buffers[b.get()] = expr_.fresh(b->name);
  std::string type = cuda_type(b->elem);
  if (is_private(b)) {
    // Matrix instructions and 16-byte accesses take these elements as packed 32-bit registers.
    const char* aligned = bits_of(b->elem) <= 16 ? "__align__(16) " : "";
    line(fmt::format("{}{} {}[{}];", aligned, type, name,
                     bits_of(b->elem) < 8 ? bytes_for(b->elem, *count) : *count));
    return stmt(n.body);
  }
  int64_t bytes = bytes_for(b->elem, *count);
  const int64_t align = aligns_boxes_ ? kWgmmaAlign : kSharedAlign;
  line(fmt::format("TW_SHARED({}, {}, {}, {});", type, name, launch_->shared_bytes,
                   bits_of(b->elem) < 8 ? bytes : *count));
  launch_->shared_bytes += round_up(bytes, align);
  if (launch_->shared_bytes > target_.gpu.shared_per_block) {
    throw LoweringError(
        fmt::format("a kernel needs {} bytes of shared memory with '{}'; a block of "
                    "{} has at most {}",
                    launch_->shared_bytes, b->name, target_.name, target_.gpu.shared_per_block));
  }
  stmt(n.body);
}

std::vector<std::string> KernelPrinter::buffer_parameters() {
  std::vector<std::string> parameters;
  const std::vector<Buffer>& buffers = maps_.buffers();
  for (size_t i = 0; i < buffers.size(); ++i) {
    const BufferNode* b = buffers[i].get();
    bool reads = kernel_.read.count(b) != 0, writes = kernel_.stored.count(b) != 0;
    if (!reads && !writes) continue;
    std::string name = expr_.buffers[b] = expr_.fresh(b->name);
    const bool is_made = launch_->dependent && !is_input(i);
    const char* how = writes ? (reads ? "TW_INOUT" : "TW_OUT") : is_made ? "TW_MADE" : "TW_IN";
    parameters.push_back(fmt::format("{}({}) {}", how, cuda_type(b->elem), name));
    launch_->buffers.push_back(static_cast<int>(i));
  }
  return parameters;
}

std::vector<std::string> KernelPrinter::dim_parameters() {
  std::vector<std::string> parameters;
  for (const DimVar& d : program_.dims) {
    parameters.push_back("long long " + expr_.bind(d.var, d.var.name()));
    known_.bind(d.var, Interval{d.min, d.max});
  }
  return parameters;
}

std::string KernelPrinter::print(const std::string& entry, CudaLaunch& launch, bool is_followed) {
  launch_ = &launch;
  launch.entry = entry;
  launch.grid = {Expr(1), Expr(1), Expr(1)};
  launch.block = {1, 1, 1};
  // Tiles that TMA loads need no fence to be seen.
  needs_fences_ = kernel_.stores_boxes || kernel_.stores_wgmma_operands();
  aligns_boxes_ = kernel_.has_wgmma() || kernel_.loads_boxes || kernel_.stores_boxes;
  std::vector<std::string> parameters = buffer_parameters();
  const std::vector<std::string> dims = dim_parameters();
  // The next launch's blocks take the room that this one's blocks leave: all of these run when they
  // start.
  if (launch.dependent) line("tw_grid_wait();");
  if (is_followed) line("tw_grid_launch_dependents();");
  stmt(kernel_.body);
  launch.tensor_maps = maps_.maps();
  prefetch_maps();
  declare_warpgroup();
  for (const std::string& map : maps_.names()) parameters.push_back("TW_TENSOR_MAP " + map);
  parameters.insert(parameters.end(), dims.begin(), dims.end());
  int threads = launch.block[0] * launch.block[1] * launch.block[2];
  if (threads > target_.gpu.threads_per_block) {
    throw LoweringError(fmt::format("a kernel has blocks of {} threads; {} has at most {}", threads,
                                    target_.name, target_.gpu.threads_per_block));
  }
  // Register budgets count on one block per multiprocessor, which has all its registers.
  const bool has_budgets = text_.lines.find("tw_registers_") != std::string::npos;
  const std::string cluster =
      cluster_ > 1 ? fmt::format("__cluster_dims__({}, 1, 1) ", cluster_) : "";
  return fmt::format("extern \"C\" __global__ void {}__launch_bounds__({}{})\n{}({}) {{\n{}}}\n",
                     cluster, threads, has_budgets ? ", 1" : "", entry, fmt::join(parameters, ", "),
                     text_.lines);
}

std::string identifier(const std::string& name) {
  std::string text = "tw_";
  for (char c : name) text += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return text;
}

}  // namespace

CudaSource generate_cuda(const Module& module, const Target& target,
                         const LoweringOptions& options) {
  CudaSource source;
  const Program lowered =
      lower_for_cuda(module.main, target, with_size_facts(options, &source.sizes));
  source.target = target.name;
  source.params = describe_params(module.main);
  source.dims = module.main.dims;
  if (!module.packs.empty()) source.packing = generate_packing(module.packs);
  std::vector<Buffer> buffers;
  for (const Param& p : lowered.params) buffers.push_back(p.buffer);
  std::vector<Stmt> kernels;
  map_kernels(lowered.body, [&](const Stmt& kernel) {
    kernels.push_back(kernel);
    return kernel;
  });
  for (Stmt s = lowered.body; auto* a = s.as<AllocateNode>(); s = a->body) {
    if (a->buffer->scope != Scope::Global) break;
    buffers.push_back(a->buffer);
    source.scratch.push_back({a->buffer->name, a->buffer->elem, a->buffer->shape[0]});
  }
  std::string base = identifier(module.main.name);
  for (size_t i = 0; i < kernels.size(); ++i) {
    std::string entry = kernels.size() == 1 ? base : fmt::format("{}_{}", base, i);
    source.launches.emplace_back();
    if (i > 0) source.text += "\n";
    const bool overlaps = launches_overlap(target.gpu);
    CudaLaunch& launch = source.launches.back();
    launch.dependent = overlaps && i > 0;
    source.text +=
        KernelPrinter(lowered, match_kernel(kernels[i], lowered.dims, target), buffers, target)
            .print(entry, launch, overlaps && i + 1 < kernels.size());
  }
  return source;
}

}  // namespace tilewright
