// SPDX-License-Identifier: Apache-2.0
// Bundles whose arguments are views of one tensor: each view is an argument that begins where the tensor does. Sixteen
// kinds that a program of PyTorch writes, with what PyTorch computes for them on the CPU.
#include <functional>
#include <random>

#include "host_driver/compiler/compile.hpp"
#include "shared/dl16.hpp"
#include "tests/device/runtime/program_card.hpp"
#include "tests/support/bundle_builder.hpp"

namespace svp {
namespace {

using ::test::BundleBuilder;
using ::test::BundleOperation;
using ::test::BundleTensor;

constexpr unsigned kSize = 128;  // rows and columns of each tensor
constexpr unsigned kHalf = kSize / 2;

// DL16 with sticks along the columns: a stick column holds all rows.
struct Matrix {
  std::vector<std::uint16_t> codes = std::vector<std::uint16_t>(std::size_t{kSize} * kSize);
  static std::size_t place(unsigned row, unsigned column) {
    return (std::size_t{column / 64} * kSize + row) * 64 + column % 64;
  }
  float at(unsigned row, unsigned column) const { return wire::fp32_from_dl16(codes[place(row, column)]); }
  void set(unsigned row, unsigned column, float value) { codes[place(row, column)] = wire::dl16_from_fp32(value); }
};
using Matrices = std::vector<Matrix>;

BundleTensor whole(const std::string& base, std::int64_t offset = 0) {
  return {.order = {"mb", "out"}, .stick = "out", .base = base, .offset = offset};
}
BundleTensor argument(unsigned number) { return whole("arg_" + std::to_string(number)); }
// Rows from `first` on, half as many as the tensor has.
BundleTensor rows(unsigned number, unsigned first) {
  BundleTensor view = argument(number);
  view.offset = std::int64_t{first} * 128;
  view.gap = {{"mb", kSize - kHalf}};
  return view;
}
BundleOperation of(const char* op, std::vector<BundleTensor> tensors, unsigned height = kSize) {
  return {.op = op, .extents = {{"mb", height}, {"out", kSize}}, .tensors = std::move(tensors)};
}

constexpr std::int64_t kMiB = 1 << 20;
BundleTensor between(unsigned number = 0) { return whole("pool", number * kMiB); }

// The largest element of each row, in a stick of its own.
BundleOperation largest_of_rows(const BundleTensor& from) {
  BundleTensor largest = between(1);
  largest.scale = {{"out", -2}};
  return of("max", {from, largest});
}
BundleOperation less_the_largest(const BundleTensor& from, const BundleTensor& to) {
  BundleTensor largest = between(1);
  largest.scale = {{"out", -2}};
  return of("sub", {from, largest, to});
}
BundleOperation product(const BundleTensor& a, const BundleTensor& b, const BundleTensor& to) {
  BundleTensor left = a, right = b;
  left.order = {"mb", "in"};
  left.stick = "in";
  right.order = {"in", "out"};
  return {.op = "batchmatmul", .extents = {{"mb", kSize}, {"in", kSize}, {"out", kSize}}, .tensors = {left, right, to}};
}
BundleOperation transposed(const BundleTensor& from, const BundleTensor& to) {
  BundleTensor result = to;
  result.order = {"out", "mb"};
  result.stick = "mb";
  return of("ReStickifyOpHBM", {from, result});
}

struct Kind {
  const char* text;
  std::vector<unsigned> tensor_of;  // of each argument: which tensor it is a view of
  std::function<void(BundleBuilder&)> make;
  // What the tensors hold afterwards, of what they held before.
  std::function<void(Matrices& now, const Matrices& before)> meaning;
};

template <typename Value>
void set_rows(Matrix& matrix, unsigned first, unsigned count, Value value) {
  for (unsigned r = first; r < first + count; ++r) {
    for (unsigned c = 0; c < kSize; ++c) matrix.set(r, c, value(r - first, c));
  }
}
void less_largest(Matrix& now, const Matrix& before) {
  for (unsigned r = 0; r < kSize; ++r) {
    float largest = before.at(r, 0);
    for (unsigned c = 1; c < kSize; ++c) largest = std::max(largest, before.at(r, c));
    for (unsigned c = 0; c < kSize; ++c) now.set(r, c, before.at(r, c) - largest);
  }
}
float dot(const Matrix& a, const Matrix& b, unsigned row, unsigned column) {
  float sum = 0;
  for (unsigned k = 0; k < kSize; ++k) sum += a.at(row, k) * b.at(k, column);
  return sum;
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"x[:64].copy_(x[64:])",
       {0, 0},
       [](BundleBuilder& b) { b.add(of("identity", {rows(1, kHalf), rows(0, 0)}, kHalf)); },
       [](Matrices& now, const Matrices& before) {
         set_rows(now[0], 0, kHalf, [&](unsigned r, unsigned c) { return before[0].at(kHalf + r, c); });
       }},
      {"x[64:].copy_(x[:64])",
       {0, 0},
       [](BundleBuilder& b) { b.add(of("identity", {rows(1, 0), rows(0, kHalf)}, kHalf)); },
       [](Matrices& now, const Matrices& before) {
         set_rows(now[0], kHalf, kHalf, [&](unsigned r, unsigned c) { return before[0].at(r, c); });
       }},
      {"x[:64].add_(x[64:])",
       {0, 0, 0},
       [](BundleBuilder& b) { b.add(of("add", {rows(0, 0), rows(1, kHalf), rows(2, 0)}, kHalf)); },
       [](Matrices& now, const Matrices& before) {
         set_rows(now[0], 0, kHalf,
                  [&](unsigned r, unsigned c) { return before[0].at(r, c) + before[0].at(kHalf + r, c); });
       }},
      {"add(x, y, out=x)",
       {0, 1, 0},
       [](BundleBuilder& b) { b.add(of("add", {argument(0), argument(1), argument(2)})); },
       [](Matrices& now, const Matrices& before) {
         set_rows(now[0], 0, kSize, [&](unsigned r, unsigned c) { return before[0].at(r, c) + before[1].at(r, c); });
       }},
      {"add(x, x, out=x)",
       {0, 0, 0},
       [](BundleBuilder& b) { b.add(of("add", {argument(0), argument(1), argument(2)})); },
       [](Matrices& now, const Matrices& before) {
         set_rows(now[0], 0, kSize, [&](unsigned r, unsigned c) { return 2 * before[0].at(r, c); });
       }},
      {"x.copy_(mm(x, w))",
       {0, 1, 0},
       [](BundleBuilder& b) {
         b.add(product(argument(0), argument(1), between()));
         b.add(of("identity", {between(), argument(2)}));
       },
       [](Matrices& now, const Matrices& before) {
         set_rows(now[0], 0, kSize, [&](unsigned r, unsigned c) { return dot(before[0], before[1], r, c); });
       }},
      {"x.copy_(x - x.amax(-1))",
       {0, 0, 0},
       [](BundleBuilder& b) {
         b.add(largest_of_rows(argument(0)));
         b.add(less_the_largest(argument(1), argument(2)));
       },
       [](Matrices& now, const Matrices& before) { less_largest(now[0], before[0]); }},
      {"a.copy_(a + b), halves of one tensor",
       {0, 0},
       [](BundleBuilder& b) { b.add(of("add", {rows(0, 0), rows(1, kHalf), rows(0, 0)}, kHalf)); },
       [](Matrices& now, const Matrices& before) {
         set_rows(now[0], 0, kHalf,
                  [&](unsigned r, unsigned c) { return before[0].at(r, c) + before[0].at(kHalf + r, c); });
       }},
      {"a.copy_(b + b), b is a",
       {0, 0},
       [](BundleBuilder& b) { b.add(of("add", {argument(1), argument(1), argument(0)})); },
       [](Matrices& now, const Matrices& before) {
         set_rows(now[0], 0, kSize, [&](unsigned r, unsigned c) { return 2 * before[0].at(r, c); });
       }},
      {"t = x[32:96] + x[32:96]; x[:64].copy_(t)",
       {0, 0},
       [](BundleBuilder& b) {
         BundleTensor half = between();
         b.add(of("add", {rows(1, 32), rows(1, 32), half}, kHalf));
         b.add(of("identity", {half, rows(0, 0)}, kHalf));
       },
       [](Matrices& now, const Matrices& before) {
         set_rows(now[0], 0, kHalf, [&](unsigned r, unsigned c) { return 2 * before[0].at(32 + r, c); });
       }},
      {"a.copy_(b - b.amax(-1)), b is a",
       {0, 0},
       [](BundleBuilder& b) {
         b.add(largest_of_rows(argument(1)));
         b.add(less_the_largest(argument(1), argument(0)));
       },
       [](Matrices& now, const Matrices& before) { less_largest(now[0], before[0]); }},
      {"a.copy_(mm(b, b)), b is a",
       {0, 0},
       [](BundleBuilder& b) {
         b.add(product(argument(1), argument(1), between()));
         b.add(of("identity", {between(), argument(0)}));
       },
       [](Matrices& now, const Matrices& before) {
         set_rows(now[0], 0, kSize, [&](unsigned r, unsigned c) { return dot(before[0], before[0], r, c); });
       }},
      {"a.copy_(b.t()), b is a",
       {0, 0},
       [](BundleBuilder& b) {
         b.add(transposed(argument(1), between()));
         b.add(of("identity", {between(), argument(0)}));
       },
       [](Matrices& now, const Matrices& before) {
         set_rows(now[0], 0, kSize, [&](unsigned r, unsigned c) { return before[0].at(c, r); });
       }},
      {"slice_scatter(x, y, 0, 0, 64)",
       {2, 0, 1, 2},
       [](BundleBuilder& b) {
         b.add(of("identity", {argument(1), argument(0)}));
         b.add(of("identity", {rows(2, 0), rows(3, 0)}, kHalf));
       },
       [](Matrices& now, const Matrices& before) {
         now[2] = before[0];
         set_rows(now[2], 0, kHalf, [&](unsigned r, unsigned c) { return before[1].at(r, c); });
       }},
      {"cat([x[64:], x[:64]])",
       {0, 0, 1, 1},
       [](BundleBuilder& b) {
         b.add(of("identity", {rows(0, kHalf), rows(2, 0)}, kHalf));
         b.add(of("identity", {rows(1, 0), rows(3, kHalf)}, kHalf));
       },
       [](Matrices& now, const Matrices& before) {
         set_rows(now[1], 0, kHalf, [&](unsigned r, unsigned c) { return before[0].at(kHalf + r, c); });
         set_rows(now[1], kHalf, kHalf, [&](unsigned r, unsigned c) { return before[0].at(r, c); });
       }},
      {"x[:64].copy_(y[:64]); y[64:].copy_(x[:64])",
       {0, 1, 1, 0},
       [](BundleBuilder& b) {
         b.add(of("identity", {rows(1, 0), rows(0, 0)}, kHalf));
         b.add(of("identity", {rows(3, 0), rows(2, kHalf)}, kHalf));
       },
       [](Matrices& now, const Matrices& before) {
         set_rows(now[0], 0, kHalf, [&](unsigned r, unsigned c) { return before[1].at(r, c); });
         set_rows(now[1], kHalf, kHalf, [&](unsigned r, unsigned c) { return before[1].at(r, c); });
       }},
  };
  return all;
}

class ViewsOfOneTensor : public test::ProgramCard {
 protected:
  static Matrix numbers(std::mt19937& random) {
    Matrix matrix;
    for (std::uint16_t& code : matrix.codes) {
      code = wire::dl16_from_fp32(static_cast<float>(static_cast<int>(random() % 9) - 4));
    }
    return matrix;
  }
  static Job compiled(const char* name, unsigned arguments, const std::function<void(BundleBuilder&)>& make) {
    BundleBuilder builder(arguments, 2 * kMiB);
    make(builder);
    const auto program =
        compiler::compile(compiler::read_bundle([&](const std::string& n) { return builder.read(n); }));
    const auto bytes = program.bytes();
    return load(std::make_shared<const DeviceProgram>(name, Bytes(bytes.begin(), bytes.end())));
  }
  // The tensors after a launch on them.
  Matrices launched(const Job& job, const std::vector<unsigned>& tensor_of, const Matrices& before,
                    std::uint64_t cores) {
    std::vector<AllocationIndex> memory;
    for (const Matrix& matrix : before) {
      const auto bytes = std::as_bytes(std::span(matrix.codes));
      memory.push_back(holding({bytes.begin(), bytes.end()}));
    }
    std::vector<Argument> arguments;
    for (const unsigned tensor : tensor_of) arguments.push_back(Argument::raw(memory[tensor]));
    stream().Launch(job, arguments, {.core_mask = cores});
    Matrices now(before.size());
    for (std::size_t i = 0; i < now.size(); ++i) {
      const Bytes bytes = content_of(memory[i], now[i].codes.size() * 2);
      std::memcpy(now[i].codes.data(), bytes.data(), bytes.size());
    }
    return now;
  }
  static std::uint64_t all_cores() { return context().runtime().launch_site(0).all_cores; }
};

TEST_F(ViewsOfOneTensor, AreArgumentsOfOneLaunch) {
  std::mt19937 random(1);
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.text);
    const Job job = compiled("views", static_cast<unsigned>(kind.tensor_of.size()), kind.make);
    Matrices before;
    for (int i = 0; i < 3; ++i) before.push_back(numbers(random));
    Matrices expected = before;
    kind.meaning(expected, before);
    for (const std::uint64_t cores : {std::uint64_t{1}, all_cores()}) {
      const Matrices now = launched(job, kind.tensor_of, before, cores);
      for (std::size_t i = 0; i < now.size(); ++i) EXPECT_EQ(now[i].codes, expected[i].codes) << "tensor " << i;
    }
  }
}

// Rows that one operation reads and writes at different places: what is written of them is one of the two. The others
// are right.
TEST_F(ViewsOfOneTensor, RowsThatAreReadAndWrittenAtOnceAreOldOrNew) {
  constexpr unsigned kShift = 32;
  const Job job =
      compiled("shifted", 2, [](BundleBuilder& b) { b.add(of("identity", {rows(1, kShift), rows(0, 0)}, kHalf)); });
  std::mt19937 random(2);
  const Matrices before{numbers(random)};
  const Matrix now = launched(job, {0, 0}, before, all_cores())[0];
  for (unsigned c = 0; c < kSize; ++c) {
    for (unsigned r = 0; r < kShift; ++r) {
      const float value = now.at(r, c);
      EXPECT_TRUE(value == before[0].at(r + kShift, c) || value == before[0].at(r + 2 * kShift, c)) << r << ", " << c;
    }
    for (unsigned r = kShift; r < kHalf; ++r) EXPECT_EQ(now.at(r, c), before[0].at(r + kShift, c));
    for (unsigned r = kHalf; r < kSize; ++r) EXPECT_EQ(now.at(r, c), before[0].at(r, c));
  }
}

TEST_F(ViewsOfOneTensor, ThatBeginAtDifferentBytesAreRefused) {
  const Job job = compiled("displaced", 2, kinds()[0].make);
  const AllocationIndex memory = room(2 * kSize * kSize * 2);
  const Argument arguments[] = {Argument::raw(memory, 128), Argument::raw(memory)};
  try {
    stream().Launch(job, arguments);
    ADD_FAILURE() << "launched";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("operand argument 0 of kernel displaced is written and overlaps operand "
                                   "argument 1"));
    EXPECT_THAT(error.what(), testing::HasSubstr("give the output memory of its own, or both from the same byte"));
  }
}

}  // namespace
}  // namespace svp
