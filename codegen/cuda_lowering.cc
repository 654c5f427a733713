#include "codegen/cuda_lowering.h"

#include <fmt/core.h>

#include "codegen/cuda/cuda_masks.h"
#include "codegen/passes/run_passes.h"

namespace tilewright {

bool is_block_axis(ForKind kind) {
  return kind == ForKind::BlockX || kind == ForKind::BlockY || kind == ForKind::BlockZ;
}

bool is_thread_axis(ForKind kind) {
  return kind == ForKind::ThreadX || kind == ForKind::ThreadY || kind == ForKind::ThreadZ;
}

bool is_private(const Buffer& buffer) {
  return buffer->scope != Scope::Global && buffer->scope != Scope::Shared;
}

Stmt map_kernels(const Stmt& body, const std::function<Stmt(const Stmt&)>& fn) {
  if (auto* a = body.as<AllocateNode>()) {
    Stmt inside = map_kernels(a->body, fn);
    return inside.defined() ? make_allocate(a->buffer, inside) : inside;
  }
  if (auto* seq = body.as<SeqNode>()) {
    std::vector<Stmt> kernels;
    for (const Stmt& s : seq->stmts) kernels.push_back(map_kernels(s, fn));
    return make_seq(std::move(kernels));
  }
  return fn(body);
}

const std::vector<Pass>& cuda_passes() {
  auto simple = [](Program (*fn)(const Program&)) {
    return [fn](const Program& p, const Target&, const LoweringOptions&) { return fn(p); };
  };
  static const std::vector<Pass> passes = {
      {"lower_blocks", true, simple(lower_blocks)},
      {"number_window_rows", true, simple(number_window_rows)},
      {"compact_buffers", true, simple(compact_buffers)},
      {"simplify_blocks", false, simple(simplify_program)},
      {"set_masks_apart", false, simple(set_masks_apart)},
      {"persist_grids", true, simple(persist_grids)},
      {"pipeline_loops", false, simple(pipeline_loops)},
      {"insert_barriers", false, simple(insert_barriers)},
      {"hoist_threads", true, simple(hoist_threads)},
      {"pipeline_tensor_copies", true,
       [](const Program& p, const Target& t, const LoweringOptions&) {
         return pipeline_tensor_copies(p, t);
       }},
      // The lane that owns a thread's elements may turn out to be the thread itself.
      {"simplify_threads", false, simple(simplify_program)},
      {"compact_private_buffers", false, simple(compact_buffers)},
      {"pad_shared_rows", false, simple(pad_shared_rows)},
      {"simplify_loops", false, simple(simplify_program)},
      {"flatten_buffers", true, simple(flatten_buffers)},
      {"vectorize_loops", true,
       [](const Program& p, const Target& t, const LoweringOptions&) {
         return vectorize_loops(p, t);
       }},
      {"simplify", false, simple(simplify_program)},
      {"scale_maxima", false, simple(scale_maxima)},
  };
  return passes;
}

Program lower_for_cuda(const Program& program, const Target& target,
                       const LoweringOptions& options) {
  return run_passes(cuda_passes(), program, target, options);
}

}  // namespace tilewright
