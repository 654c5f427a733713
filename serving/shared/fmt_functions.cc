// Functions that fmt keeps in its shared library, in ours instead: libtilewright.so does not
// depend on it.
// format-inl.h holds the plain functions; templates that fmt's headers declare to be elsewhere are
// made here.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
template auto thousands_sep_impl(locale_ref location) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref location) -> char;
template locale_ref::locale_ref(const std::locale& location);
template auto locale_ref::get<std::locale>() const -> std::locale;

}  // namespace detail
FMT_END_NAMESPACE
