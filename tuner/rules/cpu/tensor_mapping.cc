#include "tuner/rules/cpu/tensor_mapping.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/ceil_div.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/cpu/tensor_roles.h"

namespace tilewright {
namespace {

constexpr Conversion kWithOffset[] = {
    {ElemType::i8, ElemType::u8, 128},
    {ElemType::u8, ElemType::i8, -128},
};
constexpr double kMuchMore = 1.5;    // times the best mapping's work: no option
constexpr double kCopyCosts = 1.25;  // factor of work for gathering an operand, roughly
constexpr size_t kMostMappings = 6;

// All mappings of one contraction, with its operands in given roles.
class Finder {
 public:
  Finder(const Schedule& s, const Block& block, const TensorRoles& roles)
      : node_(s.node(block)), roles_(roles) {}

  std::vector<TensorMapping> found;
  std::string refusal;

  void add(const Intrinsic& row) {
    const TensorSemantics& semantics = row.semantics();
    std::vector<Buffer> operands = semantics.operands();
    // With a single k element, an intrinsic does no more than vector expressions, which the
    // compiler schedules.
    bool dots = operands.size() == 3 && semantics.extents.size() == 2 && semantics.extents[1] > 1;
    if (!dots || row.takes_each() || !row.takes_second(roles_.b->buffer->elem)) return;
    if (!computed_.insert(row.computes).second) return;  // a faster row computes it
    auto a = conversion(roles_.a->buffer->elem, operands[1]->elem);
    auto b = conversion(roles_.b->buffer->elem, operands[2]->elem);
    bool types = operands[0]->elem == roles_.sum->buffer->elem && a && b &&
                 (a->offset == 0 || b->offset == 0);
    if (!types) return;
    // A row that takes the operands as they are saves the offset.
    const bool shifted = a->offset != 0 || b->offset != 0;
    if (shifted && exact_.contains(semantics.extents)) return;
    if (!shifted) exact_.insert(semantics.extents);
    has_types_ = true;
    row_ = &row;
    // Without a weight, the correction of an offset is computed in each run.
    dear_ = !roles_.weight && shifted ? 2 : 1;
    for (const LaneRole& j : roles_.lanes) {
      for (const TermRole& k : term_roles()) consider(j, k);
    }
  }

  bool has_types() const { return has_types_; }

 private:
  int64_t extent(int iter) const { return *as_int(node_.iters[iter].extent); }
  std::string name(int iter) const { return iterator_name(node_, iter); }
  int64_t lanes() const { return row_->semantics().extents[0]; }
  int64_t terms() const { return row_->semantics().extents[1]; }

  struct TermRole {
    std::vector<int> k;
    Fetch fetch;
    int k_dim = -1;
  };

  // Single reduction iterators, and several of them if that needs less padding.
  std::vector<TermRole> term_roles() const {
    std::vector<TermRole> list;
    int64_t least = INT64_MAX;  // k with one iterator padded
    for (int k : roles_.terms) {
      Fetch fetch = Fetch::InPlace;
      int dim = roles_.dimension_of(k);
      if (plain_iterator(node_, roles_.a->indices.back()) != k) {
        if (dim < 0) continue;
        fetch = Fetch::Moved;
      }
      list.push_back({{k}, fetch, dim});
      least = std::min(least, padded({k}) * all_terms() / extent(k));
    }
    for (const std::vector<int>& k : {roles_.window_row(), roles_.terms}) {
      bool row = k == roles_.window_row();
      if (k.size() < 2 || padded(k) * all_terms() / count(k) >= least) continue;
      // Values read beyond a row must not matter, but infinity times 0 would.
      bool whole = count(k) % terms() == 0 || is_integer(roles_.a->buffer->elem);
      if (row && whole) list.push_back({k, Fetch::Rows});
      if (k == roles_.terms && roles_.reuse_of_a >= kWorthAGather) {
        list.push_back({k, Fetch::Gathered});
      }
    }
    if (list.empty() && !roles_.terms.empty() && roles_.reuse_of_a >= kWorthAGather) {
      list.push_back({roles_.terms, Fetch::Gathered});
    }
    return list;
  }
  int64_t count(const std::vector<int>& iters) const {
    int64_t product = 1;
    for (int i : iters) product *= extent(i);
    return product;
  }
  int64_t padded(const std::vector<int>& k) const { return round_up(count(k), terms()); }
  int64_t all_terms() const { return count(roles_.terms); }

  // Adds the mapping if padding to whole tiles at most doubles the work.
  void consider(const LaneRole& j, const TermRole& k) {
    int64_t along = j.group > 0 ? j.group : extent(j.iter);
    if (2 * along < lanes()) {
      return refuse(fmt::format("iterator '{}' of {} is less than half of the {} lanes of '{}'",
                                name(j.iter), along, lanes(), row_->name));
    }
    if (2 * count(k.k) < terms()) {
      return refuse(fmt::format("iterator '{}' of {} is less than half of the {} terms of '{}'",
                                name(k.k.back()), count(k.k), terms(), row_->name));
    }
    TensorMapping m{row_,
                    std::string(row_->name),
                    roles_.a->buffer->name,
                    roles_.b->buffer->name,
                    j.iter,
                    k.k,
                    j.group,
                    k.fetch,
                    k.k_dim,
                    roles_.weight};
    bool last_k = k.k.size() == 1 && k.fetch == Fetch::InPlace;
    bool last_j = plain_iterator(node_, roles_.sum->indices.back()) == j.iter;
    if (!last_k) {
      std::vector<std::string> names;
      for (int i : k.k) names.push_back(name(i));
      m.name += fmt::format(" over {}", fmt::join(names, ","));
    }
    if (!last_j || j.group > 0) m.name += fmt::format(" for {}", name(j.iter));
    int64_t whole = round_up(along, lanes());
    double tiles = static_cast<double>(whole) / static_cast<double>(along);
    double steps = static_cast<double>(padded(k.k)) / static_cast<double>(count(k.k)) /
                   static_cast<double>(terms());
    m.work = tiles * steps * dear_ * (k.fetch == Fetch::Gathered ? kCopyCosts : 1);
    bool is_first = true, is_new = true;
    for (const TensorMapping& other : found) {
      is_first &= !other.usual;
      is_new &= other.name != m.name;
    }
    bool bytes = bits_of(roles_.b->buffer->elem) >= 8 && bits_of(roles_.a->buffer->elem) >= 8;
    m.usual = roles_.weight && last_k && last_j && is_first && bytes;
    if (is_new) found.push_back(m);
  }

  void refuse(std::string reason) {
    if (refusal.empty()) refusal = std::move(reason);
  }

  const BlockNode& node_;
  const TensorRoles& roles_;
  const Intrinsic* row_ = nullptr;
  std::set<std::string_view> computed_;
  std::set<std::vector<int64_t>> exact_;  // extents of rows that take operands unconverted
  double dear_ = 1;
  bool has_types_ = false;
};

// Sorts the mappings, best first. The usual one stays first unless another is much better, and is
// never dropped as too slow.
void sort_out(std::vector<TensorMapping>& list) {
  auto cost = [](const TensorMapping& m) { return m.work * (m.usual ? 0.9 : 1); };
  std::stable_sort(list.begin(), list.end(), [&](const TensorMapping& x, const TensorMapping& y) {
    return cost(x) < cost(y);
  });
  double best = list.empty() ? 0 : list.front().work;
  std::erase_if(list,
                [&](const TensorMapping& m) { return m.work > kMuchMore * best && !m.usual; });
  if (list.size() > kMostMappings) list.resize(kMostMappings);
}

}  // namespace

std::optional<Conversion> conversion(ElemType from, ElemType to) {
  if (from == to) return Conversion{from, to, 0};
  for (const Conversion& c : kWithOffset) {
    if (c.from == from && c.to == to) return c;
  }
  if (!is_integer(from) || !is_integer(to)) return std::nullopt;
  bool from_signed = info(from).kind == ElemKind::Int, to_signed = info(to).kind == ElemKind::Int;
  bool holds = from_signed == to_signed ? bits_of(from) < bits_of(to)
                                        : to_signed && bits_of(from) < bits_of(to);
  return holds ? std::optional(Conversion{from, to, 0}) : std::nullopt;
}

namespace {

// Whether an earlier row is this one with its operand types exchanged (signed and unsigned bytes):
// converted operands fit that row, too.
bool exchanges_types(const Intrinsic& row, const std::vector<const Intrinsic*>& rows) {
  std::vector<Buffer> own = row.semantics().operands();
  for (const Intrinsic* other : rows) {
    if (other == &row) return false;
    std::vector<Buffer> before = other->semantics().operands();
    if (own.size() != 3 || before.size() != 3 || own[1]->elem == own[2]->elem) continue;
    bool exchanged = own[1]->elem == before[2]->elem && own[2]->elem == before[1]->elem;
    if (exchanged && row.semantics().extents == other->semantics().extents) return true;
  }
  return false;
}

}  // namespace

TensorMappings find_tensor_mappings(const Schedule& s, const Block& block,
                                    const std::vector<const Intrinsic*>& rows) {
  TensorMappings result;
  std::vector<TensorRoles> readings = tensor_roles(s, block, &result.refusal);
  for (const TensorRoles& roles : readings) {
    if (!roles.refusal.empty()) {
      if (result.refusal.empty()) result.refusal = roles.refusal;
      continue;
    }
    Finder finder(s, block, roles);
    for (const Intrinsic* row : rows) {
      if (!exchanges_types(*row, rows)) finder.add(*row);
    }
    result.list.insert(result.list.end(), finder.found.begin(), finder.found.end());
    if (!finder.has_types()) {
      finder.refusal = fmt::format(
          "no intrinsic of the target adds products of '{}' ({}) and '{}' ({}) to {}",
          roles.a->buffer->name, to_string(roles.a->buffer->elem), roles.b->buffer->name,
          to_string(roles.b->buffer->elem), to_string(roles.sum->buffer->elem));
    }
    if (result.refusal.empty()) result.refusal = finder.refusal;
  }
  // Keeps only the first reading's mapping of each name.
  std::vector<std::string> names;
  std::erase_if(result.list, [&](const TensorMapping& m) {
    if (std::count(names.begin(), names.end(), m.name) != 0) return true;
    names.push_back(m.name);
    return false;
  });
  sort_out(result.list);
  if (!result.list.empty()) result.refusal.clear();
  return result;
}

}  // namespace tilewright
