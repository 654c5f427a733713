#include "kernel/instructions/sparse_wgmma_rows.h"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <string>

namespace tilewright {
namespace {

std::vector<SparseWgmmaRow> make_sparse_wgmma_rows() {
  static std::deque<std::string> texts;  // the rows refer to these
  auto kept = [](std::string text) {
    return std::string_view(texts.emplace_back(std::move(text)));
  };
  std::vector<SparseWgmmaRow> rows;
  for (const WgmmaRow& dense : wgmma_rows()) {
    MmaRow whole = dense.warp;
    const std::string name(whole.name), ptx(whole.ptx);
    const std::string shape = name.substr(0, name.find('_'));
    const std::string types = ptx.substr(ptx.find(shape) + shape.size());
    whole.k *= 2;
    const std::string twice = fmt::format("m{}n{}k{}", WgmmaRow::m, whole.n, whole.k);
    whole.name = kept(fmt::format("sp_{}{}", twice, name.substr(shape.size())));
    whole.ptx = kept(fmt::format("wgmma.mma_async.sp.sync.aligned.{}{}", twice, types));
    // 1:2 of 32-bit elements, named by their two 16-bit halves; else 2:4.
    const bool halves = whole.operand_bits() == 32;
    rows.push_back({{whole, halves ? 1 : 2, halves ? 2 : 4, halves ? 4 : 2}, {whole}});
  }
  return rows;
}

}  // namespace

const std::vector<SparseWgmmaRow>& sparse_wgmma_rows() {
  static const std::vector<SparseWgmmaRow> rows = make_sparse_wgmma_rows();
  return rows;
}

const SparseWgmmaRow* find_sparse_wgmma(std::string_view name) {
  static const std::map<std::string_view, const SparseWgmmaRow*> by_name = [] {
    std::map<std::string_view, const SparseWgmmaRow*> rows;
    for (const SparseWgmmaRow& row : sparse_wgmma_rows()) rows[row.warp.whole.name] = &row;
    return rows;
  }();
  auto it = by_name.find(name);
  return it == by_name.end() ? nullptr : it->second;
}

}  // namespace tilewright
