// SPDX-License-Identifier: Apache-2.0
// The DMA engine of the array: what is moved, what is refused, and how it finds the windows of functions.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <random>
#include <stdexcept>
#include <vector>

#include "shared/crc32c.hpp"
#include "tests/unit/qemu/array/card_with_array.hpp"

namespace {

using test::MemoryBuilder;
using wire::array::kMaxElements;
using wire::array::kMaxMoveBytes;
using wire::array::Move;
using wire::array::MoveKind;
using wire::array::MoveOutcome;

// A file that is mapped as the emulator maps the memory of a window.
class MappedFile {
 public:
  explicit MappedFile(std::uint64_t bytes, int sharing = MAP_SHARED) : bytes_(bytes), file_(memfd_create("window", 0)) {
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes)) != 0) throw std::runtime_error("no file in memory");
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing, file_, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~MappedFile() {
    unmap();
    close(file_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::byte* data() { return static_cast<std::byte*>(memory_); }
  void unmap() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
    memory_ = nullptr;
  }
  std::byte read(std::uint64_t at) const {
    std::byte byte{};
    EXPECT_EQ(pread(file_, &byte, 1, static_cast<off_t>(at)), 1);
    return byte;
  }

 private:
  std::uint64_t bytes_;
  int file_;
  void* memory_ = nullptr;
};

class Moves : public test::CardWithArray {
 protected:
  static constexpr std::uint64_t kWindowAt = 0x4'0000'0000, kWindowBytes = 1 << 20, kNonceAt = 160;

  Moves() {
    std::mt19937_64 random(1);
    for (std::uint64_t i = 0; i < MemoryBuilder::kLargePage; i += 8) {
      const std::uint64_t word = random();
      std::memcpy(card.at(first_ + i), &word, sizeof word);
    }
  }

  MoveOutcome ask(const Move& wanted) {
    move() = wanted;
    array.move(kGreeter);
    return move().outcome;
  }
  bool done(const Move& wanted) { return ask(wanted) == MoveOutcome::Done; }
  bool refused(const Move& wanted) { return ask(wanted) == MoveOutcome::Refused; }

  static Move move_of(MoveKind kind, std::uint64_t to, std::uint64_t from, std::uint64_t bytes,
                      std::uint64_t pattern = 0) {
    Move wanted{};
    wanted.kind = kind;
    wanted.to = to;
    wanted.from = from;
    wanted.bytes = bytes;
    wanted.pattern = pattern;
    return wanted;
  }
  static Move copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
    return move_of(MoveKind::Copy, to, from, bytes);
  }
  static Move fill(std::uint64_t to, std::uint64_t pattern, std::uint64_t bytes) {
    return move_of(MoveKind::Fill, to, 0, bytes, pattern);
  }
  static Move checksum(std::uint64_t from, std::uint64_t bytes, std::uint32_t crc = 0) {
    return move_of(MoveKind::Checksum, 0, from, bytes, crc);
  }

  // What the firmware does when a window comes.
  bool show(std::uint64_t address, MappedFile& file, std::uint64_t bytes = kWindowBytes) {
    if (!done(move_of(MoveKind::Nonce, 0, 0, 0))) return false;
    const std::uint64_t nonce = move().pattern;
    std::memcpy(file.data() + kNonceAt, &nonce, sizeof nonce);
    return done(move_of(MoveKind::Show, address, kNonceAt, bytes, nonce));
  }
  bool hide(std::uint64_t address) { return done(move_of(MoveKind::Hide, address, 0, 0)); }
  // A byte of the region comes to the window at `address`.
  bool reaches(std::uint64_t address) { return done(copy(address + 4096, first_, 64)); }
};

TEST_F(Moves, CopyBytesOfAnyAlignment) {
  for (const std::uint64_t bytes : {1ul, 7ul, 256ul, 4097ul, kMaxMoveBytes}) {
    const std::uint64_t from = first_ + 3, to = first_ + 0x80001;
    std::byte* const there = card.at(to);
    Move wanted = copy(to, from, bytes);
    for (const std::uint32_t streamed : {0u, 1u}) {
      wanted.streamed = streamed;
      std::memset(there - 1, 0xEE, bytes + 2);
      ASSERT_TRUE(done(wanted));
      EXPECT_EQ(std::memcmp(there, card.at(from), bytes), 0);
      EXPECT_EQ(there[-1], std::byte{0xEE});
      EXPECT_EQ(there[bytes], std::byte{0xEE});
    }
  }
}

TEST_F(Moves, FillWithAPatternThatBeginsAtTheFirstByte) {
  for (const std::uint64_t pattern : {0ul, 0x0807060504030201ul}) {
    for (const std::uint64_t bytes : {1ul, 13ul, 255ul, 256ul, 1000ul, kMaxMoveBytes}) {
      std::byte* const there = card.at(first_ + 5);
      std::memset(there - 1, 0xEE, bytes + 2);
      ASSERT_TRUE(done(fill(first_ + 5, pattern, bytes)));
      for (std::uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(there[i], std::byte(pattern >> i % 8 * 8)) << i;
      EXPECT_EQ(there[-1], std::byte{0xEE});
      EXPECT_EQ(there[bytes], std::byte{0xEE});
    }
  }
}

TEST_F(Moves, ContinueAChecksum) {
  for (const std::uint64_t bytes : {0ul, 1ul, 8ul, 1003ul, kMaxMoveBytes}) {
    for (const std::uint32_t before : {0u, 0x12345678u}) {
      ASSERT_TRUE(done(checksum(first_ + 1, bytes, before)));
      EXPECT_EQ(move().pattern, wire::crc32c(before, card.at(first_ + 1), bytes));
    }
  }
}

TEST_F(Moves, CopyElementsAsTheLoopsSay) {
  std::mt19937_64 random(2);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  for (unsigned round = 0; round < 2000; ++round) {
    const unsigned bytes = 1u << below(4);
    const std::uint64_t elements = 1 + below(50), rows = 1 + below(40);
    const auto sign = [&](std::uint64_t step) {
      return below(3) == 0 ? -static_cast<std::int64_t>(step) : static_cast<std::int64_t>(step);
    };
    // Of the target: no element lies in another one.
    const bool dense = below(4) == 0;
    const std::int64_t step = dense ? bytes : sign(bytes * (1 + below(3)));
    const std::int64_t row_step = sign(static_cast<std::uint64_t>(std::abs(step)) * elements + below(64));
    const std::int64_t from_step = dense ? bytes : sign(bytes * below(5));
    const std::int64_t from_row_step = sign(below(2000));
    const std::uint64_t to = first_ + 0x100000, from = first_ + 0x80000;
    std::vector<std::byte> expected(card.at(first_), card.at(first_) + MemoryBuilder::kLargePage);
    for (std::uint64_t r = 0; r < rows; ++r) {
      for (std::uint64_t e = 0; e < elements; ++e) {
        const std::int64_t row = static_cast<std::int64_t>(r), element = static_cast<std::int64_t>(e);
        std::memcpy(expected.data() + 0x100000 + row * row_step + element * step,
                    card.at(from) + row * from_row_step + element * from_step, bytes);
      }
    }
    Move wanted = move_of(MoveKind::Elements, to, from, 0);
    wanted.element_bytes = bytes;
    wanted.elements = elements;
    wanted.rows = rows;
    wanted.to_step = step;
    wanted.from_step = from_step;
    wanted.to_row_step = row_step;
    wanted.from_row_step = from_row_step;
    ASSERT_TRUE(done(wanted));
    ASSERT_EQ(std::memcmp(expected.data(), card.at(first_), expected.size()), 0) << round;
  }
}

TEST_F(Moves, ReachRegionsAndReadTheFirmwaresMemory) {
  EXPECT_TRUE(done(copy(first_, hello_, 64)));
  EXPECT_TRUE(done(checksum(MemoryBuilder::kFirst, 64)));
  EXPECT_TRUE(done(copy(MemoryBuilder::kFirst + kBytes - 64, first_, 64)));
  // Code is executed below the regions.
  EXPECT_TRUE(refused(copy(first_ - 1, first_ + 4096, 64)));
  EXPECT_TRUE(refused(copy(hello_, first_, 64)));
  EXPECT_TRUE(refused(fill(hello_, 0, 64)));
}

TEST_F(Moves, AreRefusedBeyondTheMemory) {
  const std::uint64_t end = MemoryBuilder::kFirst + kBytes;
  EXPECT_TRUE(refused(copy(end - 63, first_, 64)));
  EXPECT_TRUE(refused(copy(first_, end - 63, 64)));
  EXPECT_TRUE(refused(copy(first_, MemoryBuilder::kFirst - 1, 64)));
  EXPECT_TRUE(refused(copy(~std::uint64_t{0}, first_, 64)));
  EXPECT_TRUE(refused(fill(end - 63, 1, 64)));
  EXPECT_TRUE(refused(checksum(end - 63, 64)));
  EXPECT_TRUE(refused(checksum(kWindowAt, 64))) << "no window has been shown";
}

TEST_F(Moves, AreRefusedBeyondTheirBounds) {
  EXPECT_TRUE(refused(copy(first_, first_ + 0x100000, kMaxMoveBytes + 1)));
  EXPECT_TRUE(refused(copy(first_, first_ + 0x100000, ~std::uint64_t{0})));
  EXPECT_TRUE(refused(fill(first_, 0, kMaxMoveBytes + 1)));
  EXPECT_TRUE(refused(checksum(first_, kMaxMoveBytes + 1)));
  EXPECT_TRUE(refused(copy(first_, first_ + 63, 64))) << "they overlap";
  EXPECT_TRUE(refused(copy(first_ + 63, first_, 64)));
  EXPECT_TRUE(done(copy(first_ + 64, first_, 64)));
  EXPECT_TRUE(refused(move_of(static_cast<MoveKind>(8), first_, first_ + 4096, 64)));
}

TEST_F(Moves, OfElementsAreRefusedBeyondTheirBounds) {
  Move good = move_of(MoveKind::Elements, first_ + 0x100000, first_ + 0x80000, 0);
  good.element_bytes = 2;
  good.elements = 4;
  good.rows = 4;
  good.to_step = 4;
  good.from_step = 6;
  good.to_row_step = 64;
  good.from_row_step = 64;
  const auto refuses = [&](auto change) {
    Move wanted = good;
    change(wanted);
    return refused(wanted);
  };
  EXPECT_FALSE(refuses([](Move&) {}));
  for (const std::uint32_t bytes : {0u, 3u, 16u, ~0u}) EXPECT_TRUE(refuses([&](Move& m) { m.element_bytes = bytes; }));
  EXPECT_TRUE(refuses([](Move& m) { m.elements = 0; }));
  EXPECT_TRUE(refuses([](Move& m) { m.rows = 0; }));
  EXPECT_TRUE(refuses([](Move& m) { m.elements = ~std::uint64_t{0}; }));
  EXPECT_TRUE(refuses([](Move& m) { m.elements = m.rows = std::uint64_t{1} << 32; })) << "their product is 0";
  EXPECT_TRUE(refuses([](Move& m) { m.elements = kMaxElements / 4 + 1, m.to_step = m.from_step = 8; }));
  EXPECT_TRUE(refuses([](Move& m) { m.to_step = std::int64_t{1} << 62; }));
  EXPECT_TRUE(refuses([](Move& m) { m.from_step = -(std::int64_t{1} << 62); }));
  EXPECT_TRUE(refuses([](Move& m) { m.to_row_step = INT64_MIN; }));
  EXPECT_TRUE(refuses([](Move& m) { m.from_row_step = INT64_MAX; }));
  // The first or last element lies outside.
  EXPECT_TRUE(refuses([](Move& m) { m.to_row_step = -0x80000; }));
  EXPECT_TRUE(refuses([](Move& m) { m.from_row_step = 0x1000000; }));
  EXPECT_TRUE(refuses([](Move& m) { m.to = 2, m.to_step = -4; }));
  EXPECT_TRUE(refuses([](Move& m) { m.from = 2, m.from_row_step = -64; }));
}

TEST_F(Moves, HappenOnceForEachTimeThatOneIsWritten) {
  ASSERT_TRUE(done(fill(first_, 1, 64)));
  std::memset(card.at(first_), 0, 64);
  array.move(kGreeter);
  EXPECT_EQ(*card.at(first_), std::byte{0}) << "of what was written before, nothing is left to be done";
  move() = fill(first_, 1, 64);
  array.move(kHart);
  EXPECT_EQ(move().outcome, MoveOutcome::None) << "another hart";
  EXPECT_EQ(*card.at(first_), std::byte{0});
}

TEST_F(Moves, AreForAFirmwareThatHasGreeted) {
  hello().version += 1;
  greet();
  EXPECT_EQ(ask(fill(first_, 1, 64)), MoveOutcome::None) << "a version that the array does not know";
  hello().version -= 1;
  hello().move = MemoryBuilder::kFirst + kBytes;
  greet();
  EXPECT_EQ(ask(fill(first_, 1, 64)), MoveOutcome::None) << "moves would lie behind the memory";
}

TEST_F(Moves, ReachAWindowThatIsShown) {
  MappedFile file(kWindowBytes), other(kWindowBytes);
  ASSERT_TRUE(show(kWindowAt, file));
  ASSERT_TRUE(show(kWindowAt + kWindowBytes, other));
  ASSERT_TRUE(done(copy(kWindowAt + kWindowBytes - 64, first_, 64)));
  EXPECT_EQ(std::memcmp(file.data() + kWindowBytes - 64, card.at(first_), 64), 0);
  std::memset(other.data(), 0x77, 64);
  ASSERT_TRUE(done(copy(first_ + 4096, kWindowAt + kWindowBytes, 64)));
  EXPECT_EQ(std::memcmp(other.data(), card.at(first_ + 4096), 64), 0);
  EXPECT_TRUE(refused(copy(kWindowAt + kWindowBytes - 63, first_, 64))) << "in no window as a whole";
  ASSERT_TRUE(hide(kWindowAt));
  EXPECT_FALSE(reaches(kWindowAt));
  EXPECT_TRUE(reaches(kWindowAt + kWindowBytes));
  greet();
  EXPECT_FALSE(reaches(kWindowAt + kWindowBytes)) << "the firmware has started anew";
}

TEST_F(Moves, GoOnWhenTheEmulatorHasUnpluggedTheWindow) {
  MappedFile file(kWindowBytes);
  ASSERT_TRUE(show(kWindowAt, file));
  file.unmap();
  std::memset(card.at(first_), 0x55, 64);
  EXPECT_TRUE(reaches(kWindowAt));
  EXPECT_EQ(file.read(4096 + 63), std::byte{0x55});
}

TEST_F(Moves, FindAWindowByTheSecretNumberOnly) {
  MappedFile file(kWindowBytes), another(kWindowBytes), small(4096), own(kWindowBytes, MAP_PRIVATE);
  const auto number = [&](MappedFile& in) {
    EXPECT_TRUE(done(move_of(MoveKind::Nonce, 0, 0, 0)));
    const std::uint64_t nonce = move().pattern;
    std::memcpy(in.data() + kNonceAt, &nonce, sizeof nonce);
    return nonce;
  };
  const auto shows = [&](std::uint64_t nonce, std::uint64_t at = kNonceAt, std::uint64_t bytes = kWindowBytes) {
    return done(move_of(MoveKind::Show, kWindowAt, at, bytes, nonce));
  };
  const std::uint64_t first = number(file);
  const std::uint64_t second = number(another);
  EXPECT_NE(first, second);
  EXPECT_FALSE(shows(first)) << "an old number";
  EXPECT_FALSE(shows(second)) << "a number counts for one attempt";
  EXPECT_FALSE(shows(number(file), kNonceAt + 8));
  EXPECT_FALSE(shows(number(file), kWindowBytes - 7));
  EXPECT_FALSE(shows(number(file), ~std::uint64_t{0}));
  EXPECT_FALSE(shows(number(small))) << "smaller than the window";
  EXPECT_FALSE(shows(number(own))) << "memory of this process only";
  EXPECT_FALSE(shows(number(file), kNonceAt, 4)) << "smaller than the number";
  EXPECT_FALSE(shows(0, 8192)) << "zeros, and no number has been chosen";
  EXPECT_TRUE(shows(number(file)));
}

TEST_F(Moves, FindNoWindowThatTheEmulatorDoesNotWrite) {
  MappedFile file(kWindowBytes);
  ASSERT_TRUE(done(move_of(MoveKind::Nonce, 0, 0, 0)));
  const std::uint64_t nonce = move().pattern;
  std::memcpy(file.data() + kNonceAt, &nonce, sizeof nonce);
  ASSERT_EQ(mprotect(file.data(), kWindowBytes, PROT_READ), 0);
  EXPECT_TRUE(refused(move_of(MoveKind::Show, kWindowAt, kNonceAt, kWindowBytes, nonce)));
}

TEST_F(Moves, WriteOnlyWhatTheySay) {
  MappedFile file(kWindowBytes);
  ASSERT_TRUE(show(kWindowAt, file));
  std::mt19937_64 random(3);
  unsigned carried_out = 0;
  for (unsigned round = 0; round < 20000; ++round) {
    const auto address = [&]() -> std::uint64_t {
      switch (random() % 8) {
        case 0: return random();
        case 1: return MemoryBuilder::kFirst + random() % kBytes;
        case 2: return kWindowAt + random() % kWindowBytes;
        case 3: return MemoryBuilder::kFirst + kBytes - random() % 300;
        case 4: return first_ - random() % 300;
        default: return first_ + random() % MemoryBuilder::kLargePage;
      }
    };
    const auto step = [&] { return static_cast<std::int64_t>(random() % 128) - 64; };
    Move wanted = move_of(static_cast<MoveKind>(1 + random() % 4), address(), address(), 0, random());
    wanted.bytes = random() % (random() % 16 == 0 ? ~0ul : 400ul);
    wanted.element_bytes = static_cast<std::uint32_t>(random() % 9);
    wanted.elements = random() % 20;
    wanted.rows = random() % 20;
    wanted.to_step = step();
    wanted.from_step = step();
    wanted.to_row_step = step() * 16;
    wanted.from_row_step = step() * 16;
    const std::uint32_t before = wire::crc32c(0, card.at(MemoryBuilder::kFirst), move_ - MemoryBuilder::kFirst);
    carried_out += done(wanted) ? 1 : 0;
    ASSERT_EQ(wire::crc32c(0, card.at(MemoryBuilder::kFirst), move_ - MemoryBuilder::kFirst), before)
        << "the firmware's memory has changed in round " << round;
  }
  EXPECT_GT(carried_out, 1000u);
}

TEST_F(Moves, AreRefusedAboutEverySecondTimeWhenTheArrayIsMixed) {
  array = svp::array::ComputeArray(true);
  greet();
  unsigned refusals = 0;
  for (unsigned i = 0; i < 400; ++i) refusals += refused(fill(first_, 1, 64)) ? 1 : 0;
  EXPECT_GT(refusals, 100u);
  EXPECT_LT(refusals, 300u);
  MappedFile file(kWindowBytes);
  for (unsigned i = 0; i < 20; ++i) EXPECT_TRUE(show(kWindowAt, file)) << "windows come all the same";
}

}  // namespace
