// SPDX-License-Identifier: Apache-2.0
// Moves that the firmware could ask the array's DMA engine for, in order and spoilt, on memory of the card and on
// windows that come and go. A model says of each whether it is allowed, and what each byte is afterwards: a move that
// is refused changes nothing. The card's memory lies between pages that end the program when they are touched.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <new>
#include <optional>
#include <vector>

#include "qemu/array/dma_engine.hpp"
#include "shared/crc32c.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/unit/qemu/array/memory_builder.hpp"

namespace {

using fuzz::Input;
using fuzz::require;
using test::MemoryBuilder;
using wire::array::Move;
using wire::array::MoveKind;
using wire::array::MoveOutcome;
using Wide = __int128;

constexpr std::uint64_t kFirst = MemoryBuilder::kFirst;
// of two moves of the largest size, beside each other
constexpr std::uint64_t kMemoryBytes = 144 * MemoryBuilder::kPage;
constexpr std::uint64_t kRegionsBegin = kFirst + 8 * MemoryBuilder::kPage;
constexpr std::uint64_t kWindowBytes = 16 * MemoryBuilder::kPage;
constexpr std::uint64_t kNonceAt = 160;
constexpr std::uint64_t kWindowAt = 0x4'0000'0000;
constexpr unsigned kPlaces = 3;  // where windows come, with room for one between them
constexpr unsigned kFiles = 2;

constexpr std::uint64_t place(unsigned index) { return kWindowAt + 2 * index * kWindowBytes; }

// What the emulator has mapped for a window, and what it should hold.
class File {
 public:
  File() : file_(::memfd_create("window", MFD_CLOEXEC)), expected_(kWindowBytes) {
    if (file_ < 0 || ::ftruncate(file_, kWindowBytes) != 0) throw std::bad_alloc();
    mapped_ = ::mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~File() {
    ::munmap(mapped_, kWindowBytes);
    ::close(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::byte* data() { return static_cast<std::byte*>(mapped_); }
  std::vector<std::byte>& expected() { return expected_; }
  void write_nonce(std::uint64_t nonce) {
    std::memcpy(data() + kNonceAt, &nonce, sizeof nonce);
    std::memcpy(&expected_[kNonceAt], &nonce, sizeof nonce);
  }

 private:
  int file_;
  void* mapped_ = nullptr;
  std::vector<std::byte> expected_;
};

// A side of a move, in bytes from its first element's.
struct Range {
  Wide first;
  Wide bytes;
};

struct Window {
  std::uint64_t address;
  std::uint64_t bytes;
  File* file;
};

class Engine {
 public:
  explicit Engine(Input& input) : input_(input), expected_(kMemoryBytes) {
    std::uint64_t state = input_.take<std::uint32_t>();
    for (std::uint64_t at = 0; at < kMemoryBytes; at += 8) {
      state = state * 6364136223846793005 + 1442695040888963407;
      std::memcpy(memory_.at(kFirst + at), &state, sizeof state);
    }
    std::memcpy(expected_.data(), memory_.at(kFirst), kMemoryBytes);
    engine_.begin(memory_.memory(), kRegionsBegin);
  }

  void ask() {
    Move move = make();
    for (unsigned n = input_.below(4); n > 1; --n) spoil(move);
    if (overlaps_itself(move)) return;  // the firmware asks for no such elements
    const Move asked = move;
    engine_.serve(move, false);
    require(move.kind == MoveKind::None, "a move is taken once");
    judge(asked, move);
    engine_.serve(move, false);
    require(move.outcome == (asked.kind == MoveKind::None ? asked.outcome : move.outcome), "and does nothing again");
  }

 private:
  // ---- moves
  std::uint64_t address() {
    const unsigned where = input_.below(8);
    const std::uint64_t base = where < 5 ? kFirst : place(where % kPlaces);
    const std::uint64_t bytes = where < 5 ? kMemoryBytes : kWindowBytes;
    return base + input_.take<std::uint32_t>() % (bytes + 64) - 32;
  }
  std::int64_t step() { return static_cast<std::int64_t>(input_.below(64)) - 16; }

  Move make() {
    Move move{};
    move.to = address();
    move.from = address();
    move.bytes = input_.take<std::uint32_t>() % (input_.below(2) != 0 ? 512 : kMemoryBytes);
    move.pattern = input_.below(3) == 0 ? 0 : input_.take<std::uint64_t>();
    move.streamed = input_.below(2);
    switch (input_.below(9)) {
      case 0:
      case 1: move.kind = MoveKind::Copy; break;
      case 2: move.kind = MoveKind::Fill; break;
      case 3: move.kind = MoveKind::Checksum; break;
      case 4:
      case 5: make_elements(move); break;
      case 6: move.kind = MoveKind::Nonce; break;
      case 7: make_show(move); break;
      default: move.kind = MoveKind::Hide; move.to = place(input_.below(kPlaces));
    }
    if (input_.below(8) == 0) make_largest(move);
    return move;
  }
  // About as large as a move may be, and in order but for that.
  void make_largest(Move& move) {
    move.to = kRegionsBegin + input_.below(64);
    move.from = kRegionsBegin + wire::array::kMaxMoveBytes + 128;
    move.bytes = wire::array::kMaxMoveBytes - 2 + input_.below(5);
  }
  void make_elements(Move& move) {
    move.kind = MoveKind::Elements;
    move.element_bytes = 1u << input_.below(4);
    move.elements = 1 + input_.below(300);
    move.rows = 1 + input_.below(64);
    const bool dense = input_.below(3) == 0;
    move.to_step = dense ? move.element_bytes : step();
    move.from_step = dense ? move.element_bytes : step();
    move.to_row_step = static_cast<std::int64_t>(input_.take<std::int16_t>());
    move.from_row_step = static_cast<std::int64_t>(input_.take<std::int16_t>());
  }
  // What the firmware does when a window comes; at times with a number that is not the file's, or not the last one. A
  // window that is shown goes first.
  void make_show(Move& move) {
    File& file = files_[input_.below(kFiles)];
    for (const Window& window : shown_) {
      if (window.file != &file) continue;
      move.kind = MoveKind::Hide;
      move.to = window.address;
      return;
    }
    move.kind = MoveKind::Show;
    move.to = place(input_.below(kPlaces));
    move.from = kNonceAt;
    move.bytes = kWindowBytes;
    move.pattern = nonce_.value_or(input_.take<std::uint64_t>());
    if (input_.below(8) != 0) file.write_nonce(move.pattern);
  }
  // Not where a window comes to: the firmware has each at one place.
  void spoil(Move& move) {
    std::uint64_t words[sizeof(Move) / sizeof(std::uint64_t)];
    std::memcpy(words, &move, sizeof move);
    constexpr std::size_t kFrom = offsetof(Move, from) / sizeof(std::uint64_t);
    const std::size_t first = move.kind == MoveKind::Show ? kFrom : 0;
    auto& word = words[first + input_.below(std::size(words) - first)];
    word = input_.below(2) != 0 ? input_.take<std::uint64_t>() : word ^ std::uint64_t{1} << input_.below(64);
    std::memcpy(&move, words, sizeof move);
  }

  // ---- the model
  static Range of_elements(std::uint64_t first, std::int64_t step, std::int64_t row_step, const Move& move) {
    const Wide along = Wide{step} * (Wide{move.elements} - 1), across = Wide{row_step} * (Wide{move.rows} - 1);
    const Wide before = std::min<Wide>(along, 0) + std::min<Wide>(across, 0);
    const Wide behind = std::max<Wide>(along, 0) + std::max<Wide>(across, 0);
    return {Wide{first} + before, behind - before + move.element_bytes};
  }
  static Range to_of(const Move& move) { return of_elements(move.to, move.to_step, move.to_row_step, move); }
  static Range from_of(const Move& move) { return of_elements(move.from, move.from_step, move.from_row_step, move); }
  static bool apart(const Range& a, const Range& b) {
    return a.first + a.bytes <= b.first || b.first + b.bytes <= a.first;
  }

  static bool is_kind(MoveKind kind) { return kind > MoveKind::None && kind <= MoveKind::Hide; }
  static bool are_elements(const Move& move) {
    const bool size =
        move.element_bytes == 1 || move.element_bytes == 2 || move.element_bytes == 4 || move.element_bytes == 8;
    if (!size || move.elements == 0 || move.rows == 0) return false;
    for (const std::int64_t step : {move.to_step, move.from_step, move.to_row_step, move.from_row_step}) {
      if (step > Wide{wire::array::kMaxMoveStep} || step < -Wide{wire::array::kMaxMoveStep}) return false;
    }
    const Wide all = Wide{move.elements} * Wide{move.rows};
    const bool dense = move.to_step == Wide{move.element_bytes} && move.from_step == move.to_step;
    if (move.rows > wire::array::kMaxElements) return false;
    return dense ? all * move.element_bytes <= Wide{wire::array::kMaxMoveBytes}
                 : all <= Wide{wire::array::kMaxElements};
  }
  static bool overlaps_itself(const Move& move) {
    return move.kind == MoveKind::Elements && are_elements(move) && !apart(to_of(move), from_of(move));
  }

  // Where the range should be; null: it is not all in one place.
  std::byte* expected_at(const Range& range, bool write) {
    const auto lies_in = [&](Wide begin, Wide bytes) {
      return range.first >= begin && range.first + range.bytes <= begin + bytes;
    };
    if (lies_in(kFirst, kMemoryBytes) && (!write || range.first >= Wide{kRegionsBegin})) {
      return expected_.data() + static_cast<std::uint64_t>(range.first - kFirst);
    }
    for (const Window& window : shown_) {
      if (!lies_in(window.address, window.bytes)) continue;
      return window.file->expected().data() + static_cast<std::uint64_t>(range.first - window.address);
    }
    return nullptr;
  }

  void judge(const Move& asked, const Move& answered) {
    const bool done = answered.outcome == MoveOutcome::Done;
    require(done || asked.kind == MoveKind::None || answered.outcome == MoveOutcome::Refused, "a move has an outcome");
    require(!done || is_kind(asked.kind), "a kind that there is not is refused");
    switch (asked.kind) {
      case MoveKind::Copy: judge_copy(asked, done); break;
      case MoveKind::Fill: judge_fill(asked, done); break;
      case MoveKind::Checksum: judge_checksum(asked, answered, done); break;
      case MoveKind::Elements: judge_elements(asked, done); break;
      case MoveKind::Nonce:
        require(done, "a number is chosen");
        nonce_ = answered.pattern;
        break;
      case MoveKind::Show: judge_show(asked, done); break;
      case MoveKind::Hide: hide(asked.to); break;
      case MoveKind::None: break;
    }
    require(std::memcmp(expected_.data(), memory_.at(kFirst), kMemoryBytes) == 0,
            "the card's memory is what it should be");
    for (File& file : files_) {
      require(std::memcmp(file.expected().data(), file.data(), kWindowBytes) == 0, "a window is what it should be");
    }
  }
  void judge_copy(const Move& move, bool done) {
    const Range to{move.to, move.bytes}, from{move.from, move.bytes};
    std::byte* const there = expected_at(to, true);
    const std::byte* const here = expected_at(from, false);
    const bool allowed = move.bytes <= wire::array::kMaxMoveBytes && there != nullptr && here != nullptr &&
                         (there + move.bytes <= here || here + move.bytes <= there);
    require(done == allowed || move.bytes == 0, "a copy is done when it is allowed");
    if (done && move.bytes != 0) std::memcpy(there, here, move.bytes);
  }
  void judge_fill(const Move& move, bool done) {
    std::byte* const there = expected_at({move.to, move.bytes}, true);
    require(done == (move.bytes <= wire::array::kMaxMoveBytes && there != nullptr) || move.bytes == 0,
            "a fill is done when it is allowed");
    for (std::uint64_t i = 0; done && i < move.bytes; ++i) there[i] = static_cast<std::byte>(move.pattern >> i % 8 * 8);
  }
  void judge_checksum(const Move& move, const Move& answered, bool done) {
    const std::byte* const here = expected_at({move.from, move.bytes}, false);
    require(done == (move.bytes <= wire::array::kMaxMoveBytes && here != nullptr) || move.bytes == 0,
            "a checksum is made when it is allowed");
    if (!done || here == nullptr) return;
    require(answered.pattern == wire::crc32c(static_cast<std::uint32_t>(move.pattern), here, move.bytes),
            "it is right");
  }
  void judge_elements(const Move& move, bool done) {
    const bool elements = are_elements(move);
    const Range to = elements ? to_of(move) : Range{}, from = elements ? from_of(move) : Range{};
    std::byte* there = elements ? expected_at(to, true) : nullptr;
    const std::byte* here = elements ? expected_at(from, false) : nullptr;
    require(done == (there != nullptr && here != nullptr), "elements are moved when it is allowed");
    if (!done) return;
    there += static_cast<std::int64_t>(Wide{move.to} - to.first);
    here += static_cast<std::int64_t>(Wide{move.from} - from.first);
    for (std::uint64_t row = 0; row < move.rows; ++row) {
      for (std::uint64_t i = 0; i < move.elements; ++i) {
        const auto at = [&](std::int64_t row_step, std::int64_t step) {
          return row_step * static_cast<std::int64_t>(row) + step * static_cast<std::int64_t>(i);
        };
        std::memcpy(there + at(move.to_row_step, move.to_step), here + at(move.from_row_step, move.from_step),
                    move.element_bytes);
      }
    }
  }
  void hide(std::uint64_t at) {
    std::erase_if(shown_, [&](const Window& window) { return window.address == at; });
  }
  void judge_show(const Move& move, bool done) {
    const bool chosen = nonce_ && move.pattern == *nonce_;
    nonce_.reset();
    if (chosen) hide(move.to);
    File* found = nullptr;
    for (File& file : files_) {
      std::uint64_t there = 0;
      std::memcpy(&there, file.data() + kNonceAt, sizeof there);
      if (found == nullptr && there == move.pattern && move.from == kNonceAt) found = &file;
    }
    if (!done) {
      require(!chosen || found == nullptr || move.bytes > kWindowBytes || move.bytes < kNonceAt + sizeof(std::uint64_t),
              "a window is shown");
      return;
    }
    require(chosen && found != nullptr, "the window that has the number is shown, once");
    shown_.push_back({move.to, move.bytes, found});
  }

  Input& input_;
  MemoryBuilder memory_{kMemoryBytes};
  svp::array::DmaEngine engine_;
  std::array<File, kFiles> files_;
  std::vector<std::byte> expected_;
  std::vector<Window> shown_;
  std::optional<std::uint64_t> nonce_;  // chosen, and not yet used
};

}  // namespace

void fuzz::run(Input input) {
  constexpr unsigned kMostMoves = 24;
  Engine engine(input);
  for (unsigned i = 0; i < kMostMoves && !input.empty(); ++i) engine.ask();
}
