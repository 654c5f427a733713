#include "tuner/rules/gpu/product/gpu_gemv.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda_lowering.h"
#include "ir/compare.h"
#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_units.h"
#include "tuner/rules/gpu/product/gpu_gemv_shapes.h"
#include "tuner/rules/gpu/product/gpu_gemv_words.h"

namespace tilewright {
namespace {

constexpr int64_t kSector = 32;    // bytes that memory reads together
constexpr int64_t kMostFew = 16;   // vectors; more of them are a matrix
constexpr int64_t kFirstFew = 4;   // up to this many vectors it is the first choice
constexpr int64_t kDotTerms = 4;   // k elements per byte instruction (dp4a)
constexpr int64_t kMostHeld = 64;  // registers of vector elements per turn of a thread

// The iterators of few[f, k] * many[w, k], and the source of the elements of `many`.
struct GemvRoles {
  int f, w, k;
  std::string few, many;
  std::string stored;  // `many`, or the codes of its elements
  ElemType few_type, stored_type;
  bool along_terms;  // stored elements are contiguous along k, else along w
};

// Whether each element that the block writes comes from the stored element at the same indices.
bool keeps_places(const BlockNode& value, const std::string& stored) {
  std::vector<Expr> from = indices_of(value, stored);
  const std::vector<Expr>& to = store_of(value).indices;
  return std::equal(from.begin(), from.end(), to.begin(), to.end(),
                    [](const Expr& a, const Expr& b) { return equal(a, b); });
}

class Gemv {
 public:
  Gemv(RuleContext& c, const Block& block, const GpuRoles& roles)
      : c_(c), block_(block), roles_(roles) {}

  bool run() {
    if (!find_roles() || !find_accesses()) return false;
    const GpuFacts& gpu = c_.input.target.gpu;
    std::vector<GemvShape> shapes =
        r_.along_terms ? gemv_shapes_of_warps(sizes(), gpu) : gemv_shapes_of_threads(sizes(), gpu);
    if (shapes.empty() || !choose(shapes)) return false;
    if (value_) c_.s.compute_inline(*value_);
    if (r_.along_terms) {
      by_warps();
    } else {
      by_threads();
    }
    return true;
  }

  bool takes_words() {
    weight_ = gemv_weight(c_, block_, roles_);
    if (!weight_) return false;
    r_.f = roles_.i;
    r_.w = roles_.j;
    r_.k = roles_.k;
    r_.few = roles_.a;
    r_.few_type = read_elem(node(block_), r_.few);
    r_.stored_type = weight_->codes;
    r_.along_terms = true;
    if (!has_own_loops()) return false;
    const auto vectors = as_int(node(block_).iters[static_cast<size_t>(r_.f)].extent);
    if (vectors && *vectors > kMostFew) return false;
    // With a dynamic number of vectors, a block takes `few` of them at a time.
    few_.is_dynamic = !vectors;
    for (int64_t few : vectors ? std::vector{*vectors} : std::vector<int64_t>{4, 1, 2, 8, 16}) {
      if (find_words(few)) few_.options.push_back(few);
    }
    return !few_.options.empty();
  }

  void run_by_words() {
    find_words(few_.is_dynamic ? c_.t.choose(block_.name + ".gemv.vectors", few_.options)
                               : few_.options[0]);
    // The name includes the codes per lane and turn. A smaller product with shorter turns has other
    // choices, and its check says nothing about this one.
    auto name_of = [&](const GemvShape& s) { return s.name() + "/" + std::to_string(vector_); };
    shape_ = c_.t.choose_among(block_.name + ".gemv", shapes_, name_of);
    words_.emplace(c_, block_, roles_, *weight_,
                   GemvWords::Turn{few_.vectors, terms_of(shape_), vector_});
    by_warps();
  }

 private:
  const BlockNode& node(const Block& b) { return c_.s.node(b); }
  int64_t extent(int x) { return *as_int(node(block_).iters[static_cast<size_t>(x)].extent); }

  bool find_roles() {
    if (!gpu_is_static(analyze(c_.s, block_))) return false;
    const bool rows = extent(roles_.i) <= extent(roles_.j);
    r_.f = rows ? roles_.i : roles_.j;
    r_.w = rows ? roles_.j : roles_.i;
    r_.k = roles_.k;
    r_.few = rows ? roles_.a : roles_.b;
    r_.many = rows ? roles_.b : roles_.a;
    few_.vectors = extent(r_.f);
    if (few_.vectors > kMostFew || !has_own_loops()) return false;
    r_.few_type = read_elem(node(block_), r_.few);
    r_.stored = r_.many;
    r_.stored_type = read_elem(node(block_), r_.many);
    int last = plain_iterator(node(block_), indices_of(node(block_), r_.many).back());
    r_.along_terms = last == r_.k;
    return (last == r_.k || last == r_.w) && find_stored();
  }

  // Whether the block still has its own lowered loops, k innermost.
  bool has_own_loops() {
    const size_t iters = node(block_).iters.size();
    return static_cast<size_t>(r_.k) + 1 == iters && c_.s.loops(block_).size() == iters;
  }

  // k elements of one turn of all threads that share them. padded() is k rounded up to whole turns.
  int64_t terms_of(const GemvShape& s) const { return s.deep * kWarpLanes * vector_; }
  int64_t padded(const GemvShape& s) { return round_up(extent(r_.k), terms_of(s)); }

  // Finds how threads read packed codes for this number of vectors. Returns false if nothing fits.
  bool find_words(int64_t few) {
    few_.vectors = few;
    vector_ = kAccessBits / bits_of(weight_->codes);
    for (; vector_ >= weight_->in_word(); vector_ /= 2) {
      if (!words_fit()) continue;
      shapes_ = gemv_shapes_of_warps(sizes(), c_.input.target.gpu);
      std::erase_if(shapes_, [&](const GemvShape& s) { return 4 * padded(s) > 5 * extent(r_.k); });
      if (!shapes_.empty()) return true;
    }
    return false;
  }

  // The codes of one read must belong to one group, with few vector elements beside them.
  bool words_fit() {
    const bool grouped = weight_->group == 0 || weight_->group % vector_ == 0;
    const int64_t held = vector_ * few_.vectors * bits_of(r_.few_type) / kWordBits;
    return grouped && held <= kMostHeld;
  }

  bool find_stored() {
    value_ = weight_value_of(c_.s, block_, c_.input.workload);
    if (!value_) return true;
    const BlockNode& value = node(*value_);
    r_.stored = c_.input.workload.weight->weight;
    r_.stored_type = read_elem(value, r_.stored);
    return store_of(value).buffer->name == r_.many && c_.s.consumers(*value_).size() == 1 &&
           keeps_places(value, r_.stored);
  }

  // Finds how many neighbours a thread reads at once: whole accesses within one row. Warps along k need
  // at least two, since no loop is left of one.
  bool find_accesses() {
    const int64_t row = extent(r_.along_terms ? r_.k : r_.w);
    const int bits = bits_of(r_.stored_type);
    vector_ = kAccessBits / bits;
    const int64_t most = r_.along_terms ? vector_ : kMostGemvSums / few_.vectors;
    while (vector_ > 1 && (row % vector_ != 0 || vector_ > most)) vector_ /= 2;
    if (r_.along_terms) return vector_ > 1 && vector_ * bits >= 8;
    return vector_ * bits >= 8 && row * bits % (kSector * 8) == 0;
  }

  GemvSizes sizes() {
    return {few_.vectors, extent(r_.w), extent(r_.k), batch(), vector_, bits_of(r_.stored_type)};
  }

  int64_t batch() {
    int64_t size = 1;
    for (int b : roles_.batch) size *= extent(b);
    return size;
  }

  bool choose(const std::vector<GemvShape>& shapes) {
    const std::optional<GemvShape> chosen = c_.t.choose_or_none(
        block_.name + ".gemv", shapes, [](const GemvShape& s) { return s.name(); },
        /*none_first=*/few_.vectors > kFirstFew);
    shape_ = chosen.value_or(shape_);
    return chosen.has_value();
  }

  // The block's loop of an iterator; valid until the block is moved.
  Loop loop_of(int x) { return c_.s.loops(block_)[static_cast<size_t>(x)]; }
  // The number of the result's iterators. A partial result has these first, then its own.
  size_t spatial() { return roles_.batch.size() + 2; }

  // The loops of the result: blocks, then {vectors, columns of a block, the remaining reduction}.
  std::vector<Loop> tile_result(int64_t columns) {
    last_ = gpu_place_result(c_, block_);
    std::vector<Loop> order;
    for (int b : roles_.batch) order.push_back(loop_of(b));
    const Loop rows = loop_of(r_.w), left = c_.s.loops(block_).back();
    Loop f = loop_of(r_.f);
    if (few_.is_dynamic) {
      std::vector<Loop> vectors = c_.s.split(f, {-1, few_.vectors});
      order.push_back(vectors[0]);
      f = vectors[1];
    }
    std::vector<Loop> w = c_.s.split(rows, {-1, columns});
    order.push_back(w[0]);
    c_.s.reorder(gpu_in_order({order, {f, w[1], left}}));
    grid_ = gpu_fused(c_, order);
    for (size_t p = partials_.size(); p-- > 0;) c_.s.compute_at(partials_[p], grid_);
    return {f, w[1], left};
  }

  // One result per thread, or several in turn.
  Loop bind_results(const std::vector<Loop>& loops, int64_t threads) {
    Loop results = c_.s.fuse(loops);
    const int64_t count = *as_int(c_.s.node(results).extent);
    if (count > threads) results = c_.s.split(results, {-1, threads})[1];
    c_.s.bind(results, ForKind::ThreadX);
    return results;
  }

  // The threads that store the results finish the reduction.
  void finish_result(const std::vector<Loop>& loops, int64_t threads) {
    Loop results = bind_results({loops[0], loops[1]}, threads);
    c_.s.reverse_compute_at(last_, results);
    c_.s.decompose_reduction(block_, loops[2]);
  }

  // The loops under the grid: one per iterator, in order.
  std::vector<Loop> own_loops(const Block& b) {
    std::vector<Loop> loops = c_.s.loops(b);
    return {loops.begin() + 1, loops.end()};
  }

  // Copies to registers what threads read of both operands in an iteration of `at`. Its iterators:
  // the result's, then k_0, the thread's position in k, k_2.
  void copy_operands(const Block& own, const Loop& at) {
    const BlockNode& n = node(own);
    const Var& summed = n.iters[spatial() + 2].var;
    const bool contiguous = uses_var(indices_of(n, r_.few).back(), summed);
    place_copy(c_.s.cache_read(own, r_.few, Scope::Register), r_.few_type, contiguous, at);
    place_copy(c_.s.cache_read(own, r_.stored, Scope::Register), r_.stored_type, true, at);
  }

  // If `contiguous`, uses 16-byte vectors along the last loop.
  void place_copy(const Block& copy, ElemType type, bool contiguous, const Loop& at) {
    c_.s.compute_at(copy, at);
    const std::vector<Loop> loops = c_.s.loops(copy);
    gpu_copy_in_vectors(c_,
                        {loops.begin() + static_cast<long>(1 + loops_to(copy, at)), loops.end()},
                        contiguous ? kAccessBits / bits_of(type) : 1);
  }

  size_t loops_to(const Block& b, const Loop& at) {
    std::vector<Loop> loops = c_.s.loops(b);
    return static_cast<size_t>(std::find(loops.begin(), loops.end(), at) - loops.begin());
  }

  // Products of bytes are summed four at a time, if k has no partial tile.
  bool by_dots() {
    if (words_) return weight_->dots();
    auto is_byte = [](ElemType t) { return t == ElemType::i8 || t == ElemType::u8; };
    const int64_t terms = shape_.deep * kWarpLanes * vector_;
    return is_byte(r_.few_type) && is_byte(r_.stored_type) && !value_ &&
           c_.s.output(block_)->elem == ElemType::i32 && vector_ % kDotTerms == 0 &&
           extent(r_.k) % terms == 0;
  }

  void by_warps() {
    const bool dots = by_dots();
    const int64_t lanes = shape_.deep * kWarpLanes;
    std::vector<Loop> k = c_.s.split(loop_of(r_.k), {-1, lanes, vector_});
    partials_.push_back(c_.s.rfactor(block_, k[1], 0));
    const int64_t columns = shape_.across * shape_.each, threads = lanes * shape_.across;
    if (shape_.deep > 1) {
      k = c_.s.split(c_.s.loops(block_).back(), {shape_.deep, kWarpLanes});
      partials_.push_back(c_.s.rfactor(block_, k[0], 0));
      std::vector<Loop> loops = tile_result(columns);
      std::vector<Loop> own = own_loops(partials_[1]);
      sums_of_warps(partials_[1], own[static_cast<size_t>(r_.f)], own[static_cast<size_t>(r_.w)],
                    own[spatial()], own[spatial() + 1]);
      finish_result(loops, threads);
    } else {
      std::vector<Loop> loops = tile_result(columns);
      c_.s.reverse_compute_at(last_, grid_);
      std::vector<Loop> results = own_loops(last_);
      bind_results(std::vector<Loop>(results.end() - 2, results.end()), threads);
      sums_of_warps(block_, loops[0], loops[1], {}, loops[2]);
    }
    sums_of_lanes(partials_[0], dots);
    c_.s.bind(grid_, ForKind::BlockX);
  }

  // Its iterators: the result's, then k_0, lane, k_2. Elements that a thread makes of packed codes,
  // a column's at a time, serve all vectors.
  void sums_of_lanes(const Block& own, bool dots) {
    std::vector<Loop> loops = own_loops(own);
    const Loop k = loops[spatial()], f = loops[static_cast<size_t>(r_.f)];
    std::vector<Loop> w =
        c_.s.split(loops[static_cast<size_t>(r_.w)], {shape_.across, shape_.each});
    std::vector<Loop> lane = c_.s.split(loops[spatial() + 1], {shape_.deep, kWarpLanes});
    std::vector<Loop> terms = {loops[spatial() + 2]};
    if (dots) terms = c_.s.split(terms[0], {-1, kDotTerms});
    std::vector<Loop> inner = {terms[0], f, w[1]};
    if (words_) std::reverse(inner.begin(), inner.end());
    const std::vector<Loop> of_dot(terms.begin() + 1, terms.end());
    c_.s.reorder(gpu_in_order({{w[0], lane[0], lane[1], k}, inner, of_dot}));
    const Loop thread = c_.s.fuse({w[0], lane[0], lane[1]});
    unroll_behind(c_.s.decompose_reduction(own, k), thread);
    if (words_) {
      place_copy(words_->few(), r_.few_type, true, k);
      words_->place(own, {thread, k, w[1], f, terms[0]});
    } else {
      copy_operands(own, k);
    }
    for (const Loop& l : inner) c_.s.unroll(l);
    if (dots) c_.s.annotate(terms[1], kInstructionKey, std::string(kDp4a));
    c_.s.bind(thread, ForKind::ThreadX);
    c_.s.set_scope(c_.s.output(own)->name, Scope::Register);
  }

  // Reduces over the lanes of a warp; warps divide the rows.
  void sums_of_warps(const Block& sums, const Loop& f, const Loop& columns,
                     const std::optional<Loop>& deep, const Loop& lanes) {
    std::vector<Loop> w = c_.s.split(columns, {shape_.across, shape_.each});
    std::vector<Loop> warp = {w[0]};
    if (deep) warp.push_back(*deep);
    c_.s.reorder(gpu_in_order({warp, {f, w[1], lanes}}));
    c_.s.unroll(f);
    c_.s.unroll(w[1]);
    c_.s.annotate(lanes, kInstructionKey, std::string(kShuffle));
    c_.s.bind(gpu_fused(c_, warp), ForKind::Warp);
    c_.s.set_scope(c_.s.output(sums)->name, Scope::Shared);
  }

  void unroll_behind(const Block& b, const Loop& thread) {
    std::vector<Loop> loops = c_.s.loops(b);
    for (size_t l = loops_to(b, thread) + 1; l < loops.size(); ++l) c_.s.unroll(loops[l]);
  }

  void by_threads() {
    std::vector<Loop> k = c_.s.split(loop_of(r_.k), {-1, shape_.deep, kGemvRows});
    partials_.push_back(c_.s.rfactor(block_, k[1], 0));
    std::vector<Loop> loops = tile_result(shape_.across * vector_);
    sums_of_columns(partials_[0]);
    finish_result(loops, shape_.across * shape_.deep);
    c_.s.bind(grid_, ForKind::BlockX);
  }

  // Its iterators: the result's, then k_0, the thread's position in k, k_2.
  void sums_of_columns(const Block& own) {
    std::vector<Loop> loops = own_loops(own);
    const Loop k = loops[spatial()], term = loops[spatial() + 2],
               f = loops[static_cast<size_t>(r_.f)];
    std::vector<Loop> w = c_.s.split(loops[static_cast<size_t>(r_.w)], {shape_.across, vector_});
    c_.s.reorder({loops[spatial() + 1], w[0], k, term, f, w[1]});
    const Loop thread = c_.s.fuse({loops[spatial() + 1], w[0]});
    const std::string sums = c_.s.output(own)->name;
    Block out = c_.s.cache_write(own, sums, Scope::Register);
    c_.s.reverse_compute_at(out, thread);
    Block init = c_.s.decompose_reduction(own, k);
    unroll_behind(init, thread);
    copy_operands(own, k);
    for (const Loop& l : {term, f, w[1]}) c_.s.unroll(l);
    store_sums(out, thread);
    c_.s.bind(thread, ForKind::ThreadX);
    c_.s.set_scope(sums, Scope::Shared);
  }

  void store_sums(const Block& out, const Loop& thread) {
    const bool along_rows = r_.w > r_.f && vector_ > 1;
    const int64_t most = kAccessBits / 32;
    if (along_rows && vector_ > most) c_.s.split(c_.s.loops(out).back(), {-1, most});
    if (along_rows) c_.s.vectorize(c_.s.loops(out).back());
    std::vector<Loop> loops = c_.s.loops(out);
    if (along_rows) loops.pop_back();
    for (size_t l = loops_to(out, thread) + 1; l < loops.size(); ++l) c_.s.unroll(loops[l]);
  }

  RuleContext& c_;
  Block block_, last_;
  const GpuRoles& roles_;
  GemvRoles r_{};
  GemvShape shape_{};
  int64_t vector_ = 1;
  // The vectors that a block multiplies.
  struct Few {
    int64_t vectors = 1;
    bool is_dynamic = false;       // the launch sets the number of vectors, `vectors` per block
    std::vector<int64_t> options;  // for `vectors` if dynamic
  } few_;
  std::optional<Block> value_;
  std::optional<GemvWeight> weight_;
  std::vector<GemvShape> shapes_;  // for packed codes
  std::optional<GemvWords> words_;
  std::vector<Block> partials_;  // each reduces the results of the one before it
  Loop grid_;
};

}  // namespace

bool gpu_gemv(RuleContext& c, const Block& block, const GpuRoles& roles) {
  return Gemv(c, block, roles).run();
}

bool gpu_gemv_takes_words(RuleContext& c, const Block& block, const GpuRoles& roles) {
  return Gemv(c, block, roles).takes_words();
}

void gpu_gemv_by_words(RuleContext& c, const Block& block, const GpuRoles& roles) {
  Gemv gemv(c, block, roles);
  TW_ASSERT(gemv.takes_words(), "the weight of '" + block.name + "' is no weight of few bits");
  gemv.run_by_words();
}

}  // namespace tilewright
