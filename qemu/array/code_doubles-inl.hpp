// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Vectors of DL16 codes as vectors of doubles, a few instructions for each; once for each target (Highway).
#if defined(SPYRE_QEMU_ARRAY_CODE_DOUBLES) == defined(HWY_TARGET_TOGGLE)
#ifdef SPYRE_QEMU_ARRAY_CODE_DOUBLES
#undef SPYRE_QEMU_ARRAY_CODE_DOUBLES
#else
#define SPYRE_QEMU_ARRAY_CODE_DOUBLES
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace svp::array {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using CodeTag = hn::CappedTag<std::uint16_t, 32>;
using WordTag = hn::RepartitionToWide<CodeTag>;
using DoubleTag = hn::RepartitionToWide<hn::RebindToFloat<WordTag>>;
using CodeVector = hn::VFromD<CodeTag>;
using DoubleVector = hn::VFromD<DoubleTag>;

constexpr unsigned kAllParts = 4;    // a vector of codes becomes four of doubles
constexpr unsigned kBlockLanes = 8;  // 16 bytes, between which the halves of a vector are not exchanged

// What the doubles lack: their exponents have a DL16's bias.
constexpr double kPartScale = 0x1p992;

// Sign and magnitude of the codes in the upper halves of words, where the upper word of a double has them.
template <class Words>
HWY_INLINE hn::VFromD<Words> upper_words(Words words, hn::VFromD<hn::RepartitionToNarrow<Words>> high) {
  constexpr hn::RebindToSigned<Words> ints;
  constexpr std::int32_t kSignAndMagnitude = std::bit_cast<std::int32_t>(0x83FFF800u);
  return hn::BitCast(words, hn::And(hn::ShiftRight<5>(hn::BitCast(ints, high)), hn::Set(ints, kSignAndMagnitude)));
}

// Part `kPart` of the codes as doubles: lanes 2 kPart and 2 kPart + 1 of each block of eight. Sign and magnitude move
// to their places. Zero is zero; other numbers of the smallest exponent are wrong, because a double of that exponent is
// subnormal.
template <unsigned kPart>
HWY_INLINE DoubleVector part_of(CodeVector codes) {
  constexpr WordTag words;
  const CodeVector none = hn::Zero(CodeTag());
  const CodeVector high =
      kPart < 2 ? hn::InterleaveLower(CodeTag(), none, codes) : hn::InterleaveUpper(CodeTag(), none, codes);
  const auto upper = upper_words(words, high);
  const auto zero = hn::Zero(words);
  return hn::BitCast(
      DoubleTag(), kPart % 2 == 0 ? hn::InterleaveLower(words, zero, upper) : hn::InterleaveUpper(words, zero, upper));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace svp::array
HWY_AFTER_NAMESPACE();
#endif
