#include "ir/ops/attention/attention_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/keys.h"
#include "ir/type.h"

namespace tilewright::ops {

Cache::Cache(WorkloadBuilder& b, const Expr& batch, const Expr& n)
    : b_(b), kv_heads_(b.count("kv_heads")), batch_(batch), n_(n) {
  if (!b.spec().has("page")) return;
  page_ = b.count("page");
  pages_ = b.count("pages");
}

Buffer Cache::stored(const std::string& name, ElemType elem, const Expr& last) {
  return is_paged() ? b_.input(name, elem, {pages_, page_, kv_heads_, last})
                    : b_.input(name, elem, {batch_, kv_heads_, n_, last});
}

Cache::Operand Cache::operand(const std::string& name, int64_t d) {
  const Spec& spec = b_.spec();
  Operand operand;
  if (!spec.has("kv.dtype")) {
    operand.codes = stored(name, b_.dtype, d);
    return operand;
  }
  operand.codes = stored(name, elem_under(spec, "kv.dtype"), d);
  const int64_t asked = b_.count("kv.group");
  operand.group = asked < 0 ? d : std::min(asked, d);
  operand.is_one_group = operand.group == d;
  const Expr groups = (d + operand.group - 1) / operand.group;
  if (spec.get<std::string>("kv.scale") != "none") {
    operand.scale = stored(name + ".scale", elem_under(spec, "kv.scale"), groups);
  }
  if (spec.get<std::string>("kv.zero") != "none") {
    operand.zero = stored(name + ".zero", elem_under(spec, "kv.zero"), groups);
  }
  return operand;
}

void Cache::declare_table() {
  if (!is_paged()) return;
  table_ = b_.input("T", ElemType::i32, {batch_, quotient(plus(n_, page_ - 1), page_)});
}

// The number that is stored at `k` of the row. (code - zero) * scale, rounded to the type of the
// queries, as matrix instructions multiply them.
Expr Cache::element(const Operand& operand, const Point& row, const Expr& k) const {
  auto at = [&](const Buffer& buffer, const Expr& last) {
    return load(buffer, {row[0], row[1], row[2], last});
  };
  if (operand.group == 0) return at(operand.codes, k);
  const Expr group = operand.is_one_group ? Expr(0) : quotient(k, operand.group);
  Expr value = cast(b_.acc, at(operand.codes, k));
  if (operand.zero) value = value - cast(b_.acc, at(operand.zero, group));
  if (operand.scale) value = value * cast(b_.acc, at(operand.scale, group));
  return cast(b_.dtype, value);
}

Buffer Cache::in_order(const Operand& operand) {
  if (!is_paged() && operand.group == 0) return operand.codes;
  const std::string& name = operand.codes->name;
  return b_.compute(
      name + (is_paged() ? "_seq" : "_value"), b_.dtype,
      {{"b", batch_}, {"h", kv_heads_}, {"j", n_}, {"k", operand.codes->shape.back()}},
      [&](const Point& p) {
        if (!is_paged()) return element(operand, {p[0], p[1], p[2]}, p[3]);
        Expr page = cast(ElemType::index, load(table_, {p[0], quotient(p[2], page_)}));
        page = max(min(page, Expr(pages_ - 1)), Expr(0));
        const Expr key = page_ == 1 ? Expr(0) : floormod(p[2], Expr(page_));
        return element(operand, {page, key, p[1]}, p[3]);
      });
}

void normalize_cache(Spec& spec) {
  if (spec.has("page") != spec.has("pages")) {
    throw KeyError(spec.has("page") ? "page" : "pages",
                   "a paged cache has both: keys of a page, and pages that there are, such as "
                   "page=16,pages=256");
  }
  if (!spec.has("kv.dtype")) {
    for (const char* key : {"kv.group", "kv.scale", "kv.zero"}) {
      if (!spec.has(key)) continue;
      throw KeyError(key, "belongs to a cache of few bits; give kv.dtype, such as kv.dtype=i8");
    }
    return;
  }
  spec.params.emplace("kv.group", int64_t{-1});
  spec.params.emplace("kv.scale", std::string("f32"));
  spec.params.emplace("kv.zero", std::string("none"));
  if (spec.get<int64_t>("kv.group") == 0) {
    throw KeyError("kv.group", "expected a number of elements, or -1 for one group per key, got 0");
  }
  const ElemType type = elem_under(spec, "kv.dtype");
  check_zero(spec, "kv.zero", type);
  if (spec.get<std::string>("kv.scale") == "none" && spec.get<std::string>("kv.zero") == "none") {
    if (spec.get<int64_t>("kv.group") != -1) {
      throw KeyError("kv.group", "there are neither scales nor zero points to share");
    }
  }
}

std::vector<KeyDef> cache_keys() {
  auto choice = [](std::string name, std::string doc, std::vector<std::string> choices) {
    KeyDef key = optional_key(std::move(name), KeyKind::Choice, std::move(doc));
    key.choices = std::move(choices);
    return key;
  };
  return {
      derived_count("page", "keys per page of a paged key-value cache, whose table is T (none)"),
      derived_count("pages", "number of pages in the key-value cache (none)"),
      choice("kv.dtype", "stored type of keys and values (dtype, unscaled)",
             {"i8", "u8", "i4", "u4", "f8e4m3", "f8e5m2"}),
      derived_count("kv.group",
                    "elements of a key or a value that share a scale; -1: all of them (-1)", -1),
      choice("kv.scale", "type of the scales K.scale and V.scale (f32)",
             {"f32", "f16", "bf16", "none"}),
      choice("kv.zero", "zero points K.zero and V.zero: none, stored like the codes, or f16 (none)",
             {"none", "u8", "u4", "f16"})};
}

}  // namespace tilewright::ops
