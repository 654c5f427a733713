// CUTLASS's corners of im2col copies for convolutions. Sizes are width first.
// "conv RANK IMAGE FILTER PAD STRIDE DILATION LOWER UPPER", each a list with commas.
#include <array>
#include <cute/tensor.hpp>
#include <cutlass/conv/collective/detail.hpp>
#include <cutlass/conv/convnd_problem_shape.hpp>

#include "cute_print.h"

template <int rank>
struct Sizes {
  std::array<int, rank> image, filter, pad, stride, dilation;
};

template <class List>
std::string text(const List& list) {
  std::string out;
  for (int i = 0; i < int(list.size()); ++i) out += (i ? "," : "") + std::to_string(list[i]);
  return out;
}

template <int rank>
void print_corners(const Sizes<rank>& s) {
  using Problem = cutlass::conv::ConvProblemShape<cutlass::conv::Operator::kFprop, rank>;
  typename Problem::TensorExtent activations, filter;
  typename Problem::ShapePadding pad;
  typename Problem::TraversalStride stride;
  typename Problem::ShapeDilation dilation;
  activations[0] = 2, filter[0] = 64;
  activations[rank + 1] = filter[rank + 1] = 64;
  for (int x = 0; x < rank; ++x) {
    const int at = rank - 1 - x;
    activations[at + 1] = s.image[x], filter[at + 1] = s.filter[x];
    pad[at] = s.pad[x], stride[at] = s.stride[x], dilation[at] = s.dilation[x];
  }
  Problem problem(cutlass::conv::Mode::kCrossCorrelation, activations, filter, pad, pad, stride,
                  dilation, 1);
  namespace detail = cutlass::conv::collective::detail;
  std::printf("conv %d %s %s %s %s %s %s %s\n", rank, text(s.image).c_str(), text(s.filter).c_str(),
              text(s.pad).c_str(), text(s.stride).c_str(), text(s.dilation).c_str(),
              text(detail::compute_lower_corner_whd(problem)).c_str(),
              text(detail::compute_upper_corner_whd(problem)).c_str());
}

int main() {
  for (int image : {8, 13, 32}) {
    for (int filter : {1, 2, 3, 5}) {
      for (int pad : {0, 1, 2}) {
        for (int stride : {1, 2}) {
          for (int dilation : {1, 2}) {
            print_corners<2>({{image, image + 3},
                              {filter, filter},
                              {pad, pad},
                              {stride, stride},
                              {dilation, dilation}});
          }
        }
      }
    }
  }
}
