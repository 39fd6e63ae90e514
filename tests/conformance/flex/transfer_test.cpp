// SPDX-License-Identifier: Apache-2.0
// Transfers: plain bytes, nests of loops in all formats, order, callbacks.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <future>
#include <numeric>
#include <random>
#include <thread>

#include "tests/bounds.hpp"
#include "tests/conformance/flex/flex_runtime.hpp"
#include "tests/conformance/flex/reference.hpp"

namespace flex_test {
namespace {

using testing::HasSubstr;
using Nest = data_conversion_stride_info;
constexpr std::int64_t kStickBits = 1024;

class FlexTransfer : public FlexRuntime {};

std::shared_ptr<data_conversion_info> conversion(bool to_device, DataFormats from, DataFormats to,
                                                 std::vector<Nest> nests) {
  auto info = std::make_shared<data_conversion_info>();
  info->dci_dsName_ = "DCI-Tensor-0";
  info->isHostToSen_ = to_device;
  info->dataformat_src_ = from;
  info->dataformat_dst_ = to;
  info->dcsi_ = std::move(nests);
  return info;
}

// A matrix of rows × columns, row-major on the host, in sticks on the card: [columns / eps][rows][eps].
std::vector<Nest> matrix(std::int64_t rows, std::int64_t columns, std::int64_t eps, bool to_device) {
  std::vector<Nest> nests;
  const std::int64_t full = columns / eps;
  const std::int64_t rest = columns % eps;
  const auto add = [&](std::int64_t lanes, std::int64_t sticks, std::int64_t first) {
    Nest nest{{lanes, rows, sticks}, {1, columns, eps}, {1, eps, rows * eps}, first * eps, first * rows * eps};
    if (!to_device) {
      std::swap(nest.stride_src_, nest.stride_dst_);
      std::swap(nest.offset_src_, nest.offset_dst_);
    }
    nests.push_back(nest);
  };
  if (full != 0) add(eps, full, 0);
  if (rest != 0) add(rest, 1, full);
  return nests;
}

std::vector<std::uint8_t> elements(DataFormats format, std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint8_t> bytes((count * bits_of(format) + 7) / 8);
  for (std::size_t i = 0; i < count; ++i) {
    set_element(bytes, format, static_cast<std::int64_t>(i), some_code(format, random()));
  }
  return bytes;
}

// The first element that differs, as codes; two NaN of a floating-point format are one.
void expect_elements(DataFormats from, DataFormats to, std::span<const std::uint8_t> got,
                     std::span<const std::uint8_t> expected) {
  const auto count = static_cast<std::int64_t>(expected.size() * 8 / bits_of(to));
  const bool floating = to == DataFormats::IEEE_FP32 || to == DataFormats::IEEE_FP16 || to == DataFormats::BFLOAT16;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t a = element(got, to, i);
    const std::uint64_t b = element(expected, to, i);
    if (a == b) continue;
    const auto is_nan = [&](std::uint64_t code) { return converted(to, DataFormats::BFLOAT16, code) << 1 > 0xFF00; };
    if (floating && from != to && is_nan(a) && is_nan(b)) continue;
    ADD_FAILURE() << EnumsConversion::dataFormatsToString(from) << " to " << EnumsConversion::dataFormatsToString(to)
                  << ", element " << i << ": " << std::hex << a << ", expected " << b;
    return;
  }
}

TEST_F(FlexTransfer, BytesComeBackAsTheyWent) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{128}, std::size_t{5000}, std::size_t{3} << 20}) {
    const auto sent = counted_bytes(bytes, static_cast<unsigned>(bytes));
    const auto memory = tensor(bytes);
    send(stream(), sent.data(), sent.size(), memory);
    std::vector<std::uint8_t> back(bytes);
    receive(stream(), back.data(), back.size(), memory);
    stream().synchronize();
    EXPECT_EQ(back, sent);
  }
}

TEST_F(FlexTransfer, SmallSourcesMayChangeAfterTheLaunch) {
  const auto memory = tensor(4096 * 64);
  std::vector<std::uint8_t> buffer(4096);
  std::vector<std::uint8_t> expected;
  for (unsigned i = 0; i < 64; ++i) {
    buffer = counted_bytes(4096, i);
    send(stream(), buffer.data(), buffer.size(), part_of(memory, std::uint64_t{4096} * i, 4096));
    expected.insert(expected.end(), buffer.begin(), buffer.end());
  }
  EXPECT_EQ(content(memory), expected);
}

TEST_F(FlexTransfer, LargePlainTransfersGoOnAfterTheLaunch) {
  const auto sent = counted_bytes(std::size_t{20} << 20);
  const auto memory = tensor(sent.size());
  send(stream(), sent.data(), sent.size(), memory);
  EXPECT_EQ(content(memory), sent);
}

TEST_F(FlexTransfer, OperationsOfAStreamAreInOrder) {
  const auto memory = tensor(std::size_t{2} << 20);
  std::vector<std::uint8_t> last(memory.total_size());
  for (unsigned i = 0; i < 20; ++i) {
    stream().fillAsync(&memory, i, DataFormats::SENINT8, true);
    last = counted_bytes(memory.total_size(), i);
    send(stream(), last.data(), 4096, part_of(memory, 0, 4096));
    stream().fillAsync(&memory, i + 1.0, DataFormats::SENINT8, false);
    send(stream(), last.data(), last.size() / 2, part_of(memory, 0, last.size() / 2));
  }
  std::fill(last.begin() + static_cast<std::ptrdiff_t>(last.size() / 2), last.end(), std::uint8_t{20});
  EXPECT_EQ(content(memory), last);
}

// Nobody waits in between: each transfer to the card reads what the one before has brought.
TEST_F(FlexTransfer, WhatComesBackMayBeSentOnAtOnce) {
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{3} << 20}) {
    const auto sent = counted_bytes(bytes);
    std::vector<std::uint8_t> host(bytes);
    std::vector<flex::CompositeAddress> memory;
    memory.push_back(tensor(bytes));
    send(stream(), sent.data(), bytes, memory.back());
    const auto count = static_cast<std::int64_t>(bytes);
    for (int i = 0; i < 6; ++i) {
      const bool converted = i % 2 == 0;
      const Nest all{{count}, {1}, {1}, 0, 0};
      receive(stream(), host.data(), bytes, memory.back(),
              converted ? conversion(false, DataFormats::SENINT8, DataFormats::SENINT8, {all}) : nullptr);
      memory.push_back(tensor(bytes));
      send(stream(), host.data(), bytes, memory.back(),
           i % 3 == 0 ? conversion(true, DataFormats::SENINT8, DataFormats::SENINT8, {all}) : nullptr);
    }
    EXPECT_EQ(content(memory.back()), sent);
  }
}

TEST_F(FlexTransfer, ACallbackIsKeptUntilItsTransferHasEnded) {
  for (const bool to_device : {true, false}) {
    std::vector<std::uint8_t> host(std::size_t{4} << 20, 3);
    auto memory = std::make_shared<flex::CompositeAddress>(tensor(host.size()));
    std::promise<void*> ended;
    auto called = ended.get_future();
    std::weak_ptr<flex::CompositeAddress> kept = memory;
    const auto callback = [memory, &ended](void* argument) { ended.set_value(argument); };
    if (to_device) {
      send(stream(), host.data(), host.size(), *memory, nullptr, callback);
    } else {
      receive(stream(), host.data(), host.size(), *memory, nullptr, callback);
    }
    memory.reset();
    stream().synchronize();
    ASSERT_EQ(called.wait_for(test_bounds::kCompute), std::future_status::ready);
    EXPECT_EQ(called.get(), nullptr);  // bounded: it is ready
  }
}

// Each way to the card: sticks that are filled, elements that the card scatters, sticks that are changed.
TEST_F(FlexTransfer, ACallbackOfAConversionComesWhenTheCardHasTheElements) {
  const auto memory = tensor(std::size_t{64} << 10);
  const std::vector<std::uint8_t> host(std::size_t{64} << 10, 1);
  const std::vector<std::shared_ptr<data_conversion_info>> conversions = {
      conversion(true, DataFormats::SENINT8, DataFormats::SENINT8, {{{65536}, {1}, {1}, 0, 0}}),
      conversion(true, DataFormats::SENINT8, DataFormats::SENINT8, {{{20000}, {1}, {3}, 0, 0}}),
      conversion(true, DataFormats::SENINT4, DataFormats::SENINT4, {{{20000}, {1}, {3}, 0, 0}})};
  for (const auto& info : conversions) {
    std::promise<bool> ended;
    send(stream(), host.data(), memory.total_size(), memory, info, [&](void*) { ended.set_value(stream().query()); });
    auto had_ended = ended.get_future();
    ASSERT_EQ(had_ended.wait_for(test_bounds::kCompute), std::future_status::ready);
    EXPECT_TRUE(had_ended.get());  // bounded: it is ready
  }
}

// A lock of the program's is held around everything that the runtime is asked for, and its callbacks want it.
TEST_F(FlexTransfer, NoCallbackIsWaitedForThatWantsALockOfTheProgram) {
  std::mutex global;
  std::atomic<int> called{0};
  std::promise<void> last;
  const auto memory = tensor(4096);
  const auto bytes = counted_bytes(4096);
  std::vector<std::uint8_t> back(4096);
  constexpr int kTransfers = 40;
  std::unique_lock program(global);
  const auto owner = std::this_thread::get_id();
  const auto callback = [&, owner](void*) {
    std::unique_lock<std::mutex> mine;
    if (std::this_thread::get_id() != owner) mine = std::unique_lock(global);
    if (++called == kTransfers) last.set_value();
  };
  for (int i = 0; i < kTransfers / 2; ++i) {
    send(stream(), bytes.data(), bytes.size(), memory, nullptr, callback);
    receive(stream(), back.data(), back.size(), memory, nullptr, callback);
    stream().synchronize();
    EXPECT_EQ(back, bytes);
  }
  program.unlock();
  ASSERT_EQ(last.get_future().wait_for(test_bounds::kCompute), std::future_status::ready);
}

TEST_F(FlexTransfer, EveryPairOfFormatsAgreesWithTheReference) {
  unsigned seed = 1;
  for (const auto& [from, to] : kPairs) {
    for (const bool to_device : {true, false}) {
      const DataFormats on_card = to_device ? to : from;
      const DataFormats on_host = to_device ? from : to;
      const std::int64_t eps = kStickBits / bits_of(on_card);
      const std::int64_t rows = 3;
      const std::int64_t columns = 2 * eps + eps / 2;
      const auto host_count = static_cast<std::size_t>(rows * columns);
      const auto card_count = static_cast<std::size_t>(rows * eps * 3);
      const auto memory = tensor(card_count * bits_of(on_card) / 8);
      const auto info = conversion(to_device, from, to, matrix(rows, columns, eps, to_device));
      std::vector<std::uint8_t> card = elements(on_card, card_count, ++seed);
      std::vector<std::uint8_t> host = elements(on_host, host_count, ++seed);
      send(stream(), card.data(), card.size(), memory);
      if (to_device) {
        send(stream(), host.data(), memory.total_size(), memory, info);
        convert(*info, host, card);
        expect_elements(from, to, content(memory), card);
      } else {
        std::vector<std::uint8_t> got = host;
        receive(stream(), got.data(), memory.total_size(), memory, info);
        convert(*info, card, host);
        stream().synchronize();
        expect_elements(from, to, got, host);
      }
    }
  }
}

// Elements between those that the loops name keep what they have, on either side.
TEST_F(FlexTransfer, LoopsMoveWhatTheyNameAndNothingElse) {
  std::mt19937 random(7);
  const auto number = [&](std::int64_t lowest, std::int64_t highest) {
    return std::uniform_int_distribution<std::int64_t>(lowest, highest)(random);
  };
  std::uniform_int_distribution<unsigned> seed;
  for (int round = 0; round < 60; ++round) {
    const bool to_device = round % 2 == 0;
    const std::vector<std::int64_t> size{number(1, 40), number(1, 9), number(1, 4)};
    // Each loop steps over what those inside of it name, and a little more.
    const auto strides = [&] {
      std::vector<std::int64_t> list;
      std::int64_t reach = number(1, 3);
      for (const std::int64_t extent : size) {
        list.push_back(reach);
        reach = reach * extent + number(0, 5);
      }
      return std::pair(list, reach);
    };
    const auto [host_stride, host_reach] = strides();
    const auto [card_stride, card_reach] = strides();
    const std::int64_t host_offset = number(0, 50);
    const std::int64_t card_offset = number(0, 50);
    const Nest nest = to_device ? Nest{size, host_stride, card_stride, host_offset, card_offset}
                                : Nest{size, card_stride, host_stride, card_offset, host_offset};
    const DataFormats from = to_device ? DataFormats::IEEE_FP16 : DataFormats::SEN169_FP16;
    const DataFormats to = to_device ? DataFormats::SEN169_FP16 : DataFormats::IEEE_FP16;
    const auto info = conversion(to_device, from, to, {nest});
    auto host = elements(DataFormats::IEEE_FP16, static_cast<std::size_t>(host_offset + host_reach), seed(random));
    const auto memory = tensor(static_cast<std::size_t>(card_offset + card_reach) * 2);
    auto card = counted_bytes(memory.total_size(), seed(random));
    send(stream(), card.data(), card.size(), memory);
    if (to_device) {
      send(stream(), host.data(), memory.total_size(), memory, info);
      convert(*info, host, card);
    } else {
      auto got = host;
      receive(stream(), got.data(), memory.total_size(), memory, info);
      convert(*info, card, host);
      stream().synchronize();
      expect_elements(from, to, got, host);
    }
    EXPECT_EQ(content(memory), card);
  }
}

// Full sticks of a matrix and the others of its last column go to the card in different ways; they are one transfer.
TEST_F(FlexTransfer, AMatrixWithPartOfAStickLeavesTheRestOfIt) {
  constexpr std::int64_t kLanes = 64;
  for (const std::int64_t columns : {240, 129, 65, 63}) {
    for (const bool rest_first : {false, true}) {
      const std::int64_t rows = 100;
      auto nests = matrix(rows, columns, kLanes, true);
      if (rest_first) std::ranges::reverse(nests);
      const auto info = conversion(true, DataFormats::IEEE_FP16, DataFormats::SEN169_FP16, nests);
      const auto host =
          elements(DataFormats::IEEE_FP16, static_cast<std::size_t>(rows * columns), static_cast<unsigned>(columns));
      const auto memory = tensor(static_cast<std::size_t>((columns + kLanes - 1) / kLanes * rows) * 128);
      auto card = counted_bytes(memory.total_size(), 5);
      send(stream(), card.data(), card.size(), memory);
      std::atomic<int> calls = 0;
      send(stream(), host.data(), host.size(), memory, info, [&](void*) { ++calls; });
      convert(*info, host, card);
      EXPECT_EQ(content(memory), card) << columns << " columns";
      stream().synchronize();
      EXPECT_EQ(calls, 1) << columns << " columns";
    }
  }
}

TEST_F(FlexTransfer, APartOfAnAllocationIsAnAddress) {
  const auto memory = tensor(128 * 12);
  auto card = counted_bytes(memory.total_size());
  send(stream(), card.data(), card.size(), memory);
  const auto part = part_of(memory, 128 * 3, 128 * 6);
  const auto info = conversion(true, DataFormats::IEEE_FP32, DataFormats::SEN169_FP16, matrix(2, 150, 64, true));
  const auto host = elements(DataFormats::IEEE_FP32, 300, 5);
  send(stream(), host.data(), part.total_size(), part, info);
  convert(*info, host, std::span(card).subspan(128 * 3));
  expect_elements(DataFormats::IEEE_FP32, DataFormats::SEN169_FP16, content(memory), card);
}

// More than there is pinned memory for; with sticks that are not full, too.
TEST_F(FlexTransfer, LargeTensorsAreConvertedPieceByPiece) {
  const std::int64_t rows = SPYRE_FLEX_LARGE_ROWS;
  for (const std::int64_t columns : {std::int64_t{64000}, std::int64_t{63997}}) {
    const auto host = counted_bytes(static_cast<std::size_t>(rows * columns) * 4);
    const auto memory = tensor(static_cast<std::size_t>(rows * 64000) * 4);
    send(stream(), host.data(), memory.total_size(), memory,
         conversion(true, DataFormats::IEEE_INT32, DataFormats::IEEE_INT32, matrix(rows, columns, 32, true)));
    std::vector<std::uint8_t> back(host.size());
    receive(stream(), back.data(), memory.total_size(), memory,
            conversion(false, DataFormats::IEEE_INT32, DataFormats::IEEE_INT32, matrix(rows, columns, 32, false)));
    stream().synchronize();
    EXPECT_TRUE(back == host) << columns << " columns";
  }
}

// More pieces than the card is given blocks for.
TEST_F(FlexTransfer, ManyPiecesAreOneCopy) {
  const auto memory = tensor(std::size_t{64} << 10);
  auto card = counted_bytes(memory.total_size(), 9);
  send(stream(), card.data(), card.size(), memory);
  std::vector<Nest> nests;
  nests.reserve(400);
  for (std::int64_t i = 0; i < 400; ++i) nests.push_back({{3}, {2}, {1}, i * 6, i * 61 + 5});
  const auto info = conversion(true, DataFormats::IEEE_FP16, DataFormats::SEN169_FP16, nests);
  const auto host = elements(DataFormats::IEEE_FP16, 2400, 77);
  send(stream(), host.data(), memory.total_size(), memory, info);
  convert(*info, host, card);
  EXPECT_EQ(content(memory), card);
}

TEST_F(FlexTransfer, MistakesAreRefusedBeforeAnythingMoves) {
  const auto memory = tensor(1024);
  std::vector<std::uint8_t> host(4096);
  const auto refused = [&](const std::shared_ptr<data_conversion_info>& info) {
    return what_of([&] { send(stream(), host.data(), 1024, memory, info); });
  };
  const auto fp32_to_dl16 = [](std::vector<Nest> nests) {
    return conversion(true, DataFormats::IEEE_FP32, DataFormats::SEN169_FP16, std::move(nests));
  };
  EXPECT_THAT(refused(fp32_to_dl16({{{600}, {1}, {1}, 0, 0}})), HasSubstr("reach over 1200 bytes"));
  EXPECT_THAT(refused(fp32_to_dl16({{{10}, {1}, {-1}, 0, 20}})), HasSubstr("negative"));
  EXPECT_THAT(refused(fp32_to_dl16({{{10}, {1, 1}, {1}, 0, 0}})), HasSubstr("different lengths"));
  EXPECT_THAT(refused(fp32_to_dl16({{{std::int64_t{1} << 40, std::int64_t{1} << 40}, {1, 1}, {1, 1}, 0, 0}})),
              HasSubstr("2^62"));
  EXPECT_THAT(refused(conversion(false, DataFormats::IEEE_FP32, DataFormats::SEN169_FP16, {})),
              HasSubstr("isHostToSen_"));
  EXPECT_THAT(refused(conversion(true, DataFormats::IEEE_FP32, DataFormats::SENINT24, {})), HasSubstr("SENINT24"));
  EXPECT_THAT(refused(conversion(true, DataFormats::BOOL, DataFormats::SENINT8, {})),
              HasSubstr("next: take one of the pairs of docs/tensors.md, Conversions of a copy"));
  EXPECT_THAT(what_of([&] { send(stream(), host.data(), 1025, memory); }), HasSubstr("do not fit"));
  EXPECT_THAT(what_of([&] { send(stream(), nullptr, 128, memory); }), HasSubstr("no memory"));
  EXPECT_THAT(what_of([&] { send(stream(), host.data(), 128, part_of(memory, 64, 128)); }), HasSubstr("stick"));
  auto* params = flex::createDmaParams(host.data(), 128, false, &memory);
  EXPECT_THAT(what_of([&] { stream().launchOperationH2D(params); }), HasSubstr("other direction"));
  flex::destroyDmaParams(params);
  EXPECT_FALSE(runtime->hasStreamError());
}

TEST_F(FlexTransfer, AConversionPrintsItself) {
  const auto info =
      conversion(true, DataFormats::IEEE_FP16, DataFormats::SEN169_FP16, {{{64, 2}, {1, 64}, {1, 64}, 3, 0}});
  info->input_shape_ = {128};
  std::ostringstream text;
  info->exportJson(text);
  EXPECT_EQ(
      text.str(),
      R"({"dci_dsName_": "DCI-Tensor-0", "isHostToSen_": true, "dataformat_src_": "IEEE_FP16", )"
      R"("dataformat_dst_": "SEN169_FP16", "dcsi_": [{"size_": [64, 2], "stride_src_": [1, 64], )"
      R"("stride_dst_": [1, 64], "offset_src_": 3, "offset_dst_": 0}], "input_shape_": [128], "output_shape_": []})");
}

TEST_F(FlexTransfer, ThreadsWithStreamsOfTheirOwn) {
  const auto work = [](unsigned first) {
    flex::RuntimeStream* const mine = runtime->createStream(flex::RuntimeStreamPriority::NORMAL);
    const auto memory = tensor(std::size_t{64} << 10);
    for (unsigned i = 0; i < 40; ++i) {
      const auto sent = counted_bytes(memory.total_size(), first + i);
      std::vector<std::uint8_t> back(sent.size());
      send(*mine, sent.data(), sent.size(), memory);
      receive(*mine, back.data(), back.size(), memory);
      mine->synchronize();
      EXPECT_EQ(back, sent);
    }
  };
  std::thread other(work, 1000);
  work(1);
  other.join();  // bounded: it synchronises and ends
}

}  // namespace
}  // namespace flex_test
