// SPDX-License-Identifier: Apache-2.0
// Memory of the program that becomes pinned at its addresses, and which memory is pinned at all.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/memory/host_memory.hpp"

namespace {
bool leaks_are_the_parents = false;  // set in children
}  // namespace
extern "C" int __lsan_is_turned_off() { return leaks_are_the_parents ? 1 : 0; }

namespace svp {
namespace {

constexpr std::uint64_t kOffset = 0x100000;
constexpr std::size_t kPage = 4096;

// Mapped pages; unmapped at the end.
class Mapped {
 public:
  Mapped(std::size_t bytes, int flags, int fd = -1, int protection = PROT_READ | PROT_WRITE) : bytes_(bytes) {
    void* at = ::mmap(nullptr, bytes, protection, flags, fd, 0);
    if (at == MAP_FAILED) throw std::runtime_error("mmap");
    data_ = static_cast<std::byte*>(at);
  }
  ~Mapped() { ::munmap(data_, bytes_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  std::span<std::byte> span() const { return {data_, bytes_}; }
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

struct Anonymous : Mapped {
  explicit Anonymous(std::size_t bytes) : Mapped(bytes, MAP_PRIVATE | MAP_ANONYMOUS) {}
};

// A window as the driver maps it: a shared file, not inherited by children.
struct TestWindow {
  explicit TestWindow(std::size_t bytes) {
    const int fd = ::memfd_create("window", MFD_CLOEXEC);
    if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) throw std::runtime_error("memfd");
    mapped.emplace(bytes, MAP_SHARED, fd);
    ::close(fd);
    ::madvise(mapped->data(), bytes, MADV_DONTFORK);
  }
  // What the card has at an offset of the window.
  std::byte* at(std::uint64_t offset) const { return mapped->data() + (offset - kOffset); }
  std::optional<Mapped> mapped;
};

void fill_random(std::span<std::byte> memory, unsigned seed) {
  std::mt19937 random(seed);
  std::ranges::generate(memory, [&] { return static_cast<std::byte>(random()); });
}
std::vector<std::byte> copy_of(std::span<const std::byte> memory) { return {memory.begin(), memory.end()}; }
bool same(std::span<const std::byte> a, std::span<const std::byte> b) { return std::ranges::equal(a, b); }

std::string refused_argument(HostMemory& memory, std::span<std::byte> pages) {
  try {
    memory.register_memory(pages);
  } catch (const InvalidArgument& error) {
    return error.field() + ": " + error.info().message;
  }
  return "not refused";
}

class RegisteredMemory : public testing::Test {
 protected:
  TestWindow window{1 << 20};
  std::optional<HostMemory> memory{std::in_place, window.mapped->span(), kOffset};
};

TEST_F(RegisteredMemory, TheCardSeesTheSameBytesAtTheProgramsAddresses) {
  Anonymous pages(16 * kPage);
  fill_random(pages.span(), 1);
  const auto before = copy_of(pages.span());
  EXPECT_FALSE(memory->is_pinned(pages.span()));
  memory->register_memory(pages.span());
  EXPECT_TRUE(same(pages.span(), before)) << "registering keeps the content";
  const auto offset = memory->window_offset_of(pages.span());
  ASSERT_TRUE(offset);
  EXPECT_EQ(std::memcmp(window.at(*offset), before.data(), before.size()), 0);
  pages.data()[5] = std::byte{0x55};  // the program writes, the card reads
  EXPECT_EQ(window.at(*offset)[5], std::byte{0x55});
  window.at(*offset)[7 * kPage] = std::byte{0x77};  // and the other way round
  EXPECT_EQ(pages.data()[7 * kPage], std::byte{0x77});
  EXPECT_EQ(memory->statistics().registered_bytes, 16 * kPage);
  EXPECT_EQ(memory->statistics().registrations, 1U);

  const auto at_the_end = copy_of(pages.span());
  memory->unregister_memory(pages.data());
  EXPECT_TRUE(same(pages.span(), at_the_end)) << "so does unregistering";
  window.at(*offset)[9] = std::byte{0x99};
  EXPECT_EQ(pages.data()[9], at_the_end[9]) << "it is the program's own again";
  EXPECT_FALSE(memory->is_pinned(pages.span()));
  EXPECT_EQ(memory->statistics().used_bytes, 0U);
}

TEST_F(RegisteredMemory, IsPinnedTellsAllocatedRegisteredAndOther) {
  // The pages beside the registered ones are the program's as well. (The kernel may put a mapping right below the
  // window.)
  Anonymous around(6 * kPage);
  const std::span<std::byte> pages = around.span().subspan(kPage, 4 * kPage);
  memory->register_memory(pages);
  auto buffer = std::make_optional(memory->allocate(1000));
  const std::span<std::byte> allocated = buffer->bytes();
  for (const std::span<std::byte> pinned : {pages, allocated}) {
    EXPECT_TRUE(memory->is_pinned(pinned));
    EXPECT_TRUE(memory->is_pinned(pinned.subspan(7, 100)));
    EXPECT_TRUE(memory->is_pinned(pinned.last(1)));
    EXPECT_FALSE(memory->is_pinned({pinned.data() + pinned.size(), 1})) << "one past the end";
    EXPECT_FALSE(memory->is_pinned({pinned.data() + 1, pinned.size()})) << "reaches beyond";
    EXPECT_FALSE(memory->is_pinned(pinned.first(0)));
  }
  EXPECT_FALSE(memory->is_pinned({pages.data() - 1, 2}));
  int local = 0;
  EXPECT_FALSE(memory->is_pinned(std::as_bytes(std::span(&local, 1))));
  buffer.reset();
  EXPECT_FALSE(memory->is_pinned(allocated)) << "freed";
  EXPECT_FALSE(memory->is_pinned(window.mapped->span().last(1))) << "of the window, but nobody's";
  memory->unregister_memory(pages.data());
  EXPECT_FALSE(memory->is_pinned(pages.first(1)));
}

TEST_F(RegisteredMemory, NeighboursAreNotOneRange) {
  Anonymous pages(4 * kPage);
  memory->register_memory(pages.span().first(2 * kPage));
  memory->register_memory(pages.span().last(2 * kPage));
  EXPECT_TRUE(memory->is_pinned(pages.span().first(2 * kPage)));
  EXPECT_FALSE(memory->is_pinned(pages.span()));
  EXPECT_EQ(memory->window_offset_of(pages.span().subspan(kPage, 2 * kPage)), std::nullopt);
  memory->unregister_memory(pages.data());
  memory->unregister_memory(pages.data() + 2 * kPage);
}

TEST_F(RegisteredMemory, MappingsOfDifferentKindsInOneRangeComeBackAsTheyWere) {
  Anonymous pages(12 * kPage);
  // Three mappings of the kernel's.
  ASSERT_EQ(::madvise(pages.data() + 4 * kPage, 4 * kPage, MADV_DONTDUMP), 0);
  fill_random(pages.span(), 3);
  const auto before = copy_of(pages.span());
  memory->register_memory(pages.span());
  EXPECT_TRUE(memory->is_pinned(pages.span()));
  EXPECT_TRUE(same(pages.span(), before));
  memory->unregister_memory(pages.data());
  EXPECT_TRUE(same(pages.span(), before));
  const auto kept = [&](std::size_t page) {
    std::ifstream smaps("/proc/self/smaps");
    bool here = false;
    for (std::string line; std::getline(smaps, line);) {
      if (const auto mapping = parse_mapping(line)) {
        const auto at = reinterpret_cast<std::uintptr_t>(pages.data()) + page * kPage;
        here = mapping->begin <= at && at < mapping->end;
      }
      if (here && line.starts_with("VmFlags")) return line.find(" dd") != std::string::npos;
    }
    return false;
  };
  EXPECT_FALSE(kept(0));
  EXPECT_TRUE(kept(5)) << "what madvise() said";
  EXPECT_FALSE(kept(11));
}

TEST_F(RegisteredMemory, LockedMemoryIsLockedAgainAfterwards) {
  Anonymous pages(2 * kPage);
  // The sanitizers' mlock() does nothing.
  if (::syscall(SYS_mlock, pages.data(), 2 * kPage) != 0) GTEST_SKIP() << "mlock is not allowed here";
  ASSERT_EQ(::madvise(pages.data(), 2 * kPage, MADV_DONTNEED), -1) << "locked memory refuses it";
  fill_random(pages.span(), 4);
  const auto before = copy_of(pages.span());
  memory->register_memory(pages.span());
  memory->unregister_memory(pages.data());
  EXPECT_TRUE(same(pages.span(), before));
  EXPECT_EQ(::madvise(pages.data(), 2 * kPage, MADV_DONTNEED), -1);
}

TEST_F(RegisteredMemory, HeapMemoryOfWholePagesIsTaken) {
  const std::unique_ptr<void, decltype(&std::free)> heap(std::aligned_alloc(kPage, 8 * kPage), std::free);
  const std::span pages(static_cast<std::byte*>(heap.get()), 8 * kPage);
  fill_random(pages, 5);
  const auto before = copy_of(pages);
  memory->register_memory(pages);
  EXPECT_TRUE(memory->is_pinned(pages));
  memory->unregister_memory(pages.data());
  EXPECT_TRUE(same(pages, before));
}

TEST_F(RegisteredMemory, WhatCanNotBePinnedIsRefusedByReason) {
  Anonymous pages(8 * kPage);
  fill_random(pages.span(), 6);
  const auto before = copy_of(pages.span());
  EXPECT_EQ(refused_argument(*memory, pages.span().subspan(128)), "memory: the memory does not start on a page");
  EXPECT_EQ(refused_argument(*memory, pages.span().first(5000)), "bytes: 5000 bytes are not whole pages");
  EXPECT_EQ(refused_argument(*memory, pages.span().first(0)), "bytes: 0 bytes are not whole pages");

  ::munmap(pages.data() + 4 * kPage, kPage);
  EXPECT_NE(refused_argument(*memory, pages.span()).find("there is no memory at"), std::string::npos);
  ::mprotect(pages.data() + 2 * kPage, kPage, PROT_READ);
  EXPECT_NE(refused_argument(*memory, pages.span()).find("is not readable and writable"), std::string::npos);
  EXPECT_TRUE(same(pages.span().first(4 * kPage), std::span(before).first(4 * kPage))) << "nothing has changed";

  Mapped shared(kPage, MAP_SHARED | MAP_ANONYMOUS);
  EXPECT_NE(refused_argument(*memory, shared.span()).find("is a shared mapping"), std::string::npos);
  const int fd = ::memfd_create("file", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(fd, kPage), 0);
  Mapped file(kPage, MAP_PRIVATE, fd);
  ::close(fd);
  EXPECT_NE(refused_argument(*memory, file.span()).find("is a mapping of a file"), std::string::npos);

  // A local variable may lie elsewhere under a sanitizer.
  auto* const frame = static_cast<std::byte*>(__builtin_frame_address(0));
  std::byte* const page = frame - reinterpret_cast<std::uintptr_t>(frame) % kPage;
  EXPECT_NE(refused_argument(*memory, {page, kPage}).find("is a stack"), std::string::npos);
  const PinnedBuffer pinned = memory->allocate(kPage);
  EXPECT_NE(refused_argument(*memory, pinned.bytes()).find("is a shared mapping"), std::string::npos);
  EXPECT_EQ(memory->statistics().registrations, 0U);
  EXPECT_EQ(memory->statistics().buffers, 1U);
}

TEST_F(RegisteredMemory, OverlapsAndUnknownAddressesAreRefused) {
  Anonymous pages(8 * kPage);
  memory->register_memory(pages.span().subspan(2 * kPage, 4 * kPage));
  const std::string overlap = "memory: the memory is registered already, or a part of it";
  EXPECT_EQ(refused_argument(*memory, pages.span()), overlap);
  EXPECT_EQ(refused_argument(*memory, pages.span().subspan(2 * kPage, 4 * kPage)), overlap);
  EXPECT_EQ(refused_argument(*memory, pages.span().subspan(3 * kPage, kPage)), overlap);
  EXPECT_EQ(refused_argument(*memory, pages.span().subspan(5 * kPage, 2 * kPage)), overlap);
  EXPECT_THROW(memory->unregister_memory(pages.data()), InvalidArgument);
  EXPECT_THROW(memory->unregister_memory(pages.data() + 3 * kPage), InvalidArgument);
  memory->unregister_memory(pages.data() + 2 * kPage);
  EXPECT_THROW(memory->unregister_memory(pages.data() + 2 * kPage), InvalidArgument) << "twice";
}

TEST_F(RegisteredMemory, AFullWindowIsATypedErrorAndChangesNothing) {
  Anonymous pages(16 * kPage);
  fill_random(pages.span(), 7);
  const auto before = copy_of(pages.span());
  auto held = std::make_optional(memory->allocate((1 << 20) - 8 * kPage));
  try {
    memory->register_memory(pages.span());
    FAIL();
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.requested(), 16 * kPage);
    EXPECT_EQ(error.free_bytes(), 8 * kPage);
  }
  EXPECT_TRUE(same(pages.span(), before));
  EXPECT_EQ(memory->statistics().registrations, 0U);
  held.reset();
  memory->register_memory(pages.span());
  memory->unregister_memory(pages.data());
}

TEST_F(RegisteredMemory, TheEndOfHostMemoryGivesThePagesBack) {
  Anonymous pages(8 * kPage);
  memory->register_memory(pages.span());
  fill_random(pages.span(), 8);
  const auto before = copy_of(pages.span());
  memory.reset();
  std::ranges::fill(window.mapped->span(), std::byte{0xEE});
  EXPECT_TRUE(same(pages.span(), before)) << "not a mapping of the window any more";
}

TEST_F(RegisteredMemory, AnotherWindowLeavesThemMemoryButNotPinned) {
  Anonymous pages(4 * kPage);
  fill_random(pages.span(), 9);
  memory->register_memory(pages.span());
  const auto before = copy_of(pages.span());
  TestWindow next(1 << 20);
  memory->move_to(next.mapped->span(), kOffset, nullptr);
  EXPECT_FALSE(memory->is_pinned(pages.span()));
  EXPECT_EQ(memory->window_offset_of(pages.span()), std::nullopt);
  EXPECT_TRUE(same(pages.span(), before));
  memory->unregister_memory(pages.data());
  memory->register_memory(pages.span());
  EXPECT_TRUE(memory->is_pinned(pages.span()));
  EXPECT_TRUE(same(pages.span(), before));
  memory->unregister_memory(pages.data());
}

// How a child ends that does this.
template <typename Work>
int status_of_child(Work&& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    leaks_are_the_parents = true;
    ::alarm(60);
    std::signal(SIGSEGV, SIG_DFL);  // a handler of a sanitizer would exit
    work();
    std::_Exit(0);
  }
  int status = -1;
  if (child > 0) ::waitpid(child, &status, 0);  // bounded: the child's alarm
  return status;
}

TEST_F(RegisteredMemory, AForkedChildDoesNotHaveItAndTheParentGoesOn) {
  Anonymous pages(4 * kPage);
  fill_random(pages.span(), 10);
  const auto before = copy_of(pages.span());
  memory->register_memory(pages.span());
  const auto offset = memory->window_offset_of(pages.span());
  const int touched = status_of_child([&] { *const_cast<volatile std::byte*>(pages.data()) = std::byte{1}; });
  EXPECT_TRUE(WIFSIGNALED(touched) && WTERMSIG(touched) == SIGSEGV) << touched;
  const int left_alone = status_of_child([&] {
    bool refused = false;
    try {
      memory->unregister_memory(pages.data());
    } catch (const Error&) {
      refused = true;
    }
    memory.reset();  // touches nothing
    if (!refused) std::_Exit(1);
  });
  EXPECT_TRUE(WIFEXITED(left_alone) && WEXITSTATUS(left_alone) == 0) << left_alone;
  EXPECT_TRUE(same(pages.span(), before));
  EXPECT_EQ(std::memcmp(window.at(*offset), before.data(), before.size()), 0);
  memory->unregister_memory(pages.data());
  EXPECT_TRUE(same(pages.span(), before));
  const int afterwards = status_of_child([&] {
    if (!same(pages.span(), before)) std::_Exit(1);
  });
  EXPECT_EQ(afterwards, 0) << "an ordinary child has it again";
}

TEST_F(RegisteredMemory, QueriesRunBesideRegistrationsOfOtherMemory) {
  Anonymous mine(4 * kPage);
  memory->register_memory(mine.span());
  std::atomic<bool> stop{false};
  std::atomic<unsigned> wrong{0};
  std::vector<std::thread> readers;
  readers.reserve(2);
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        if (!memory->is_pinned(mine.span()) || !memory->window_offset_of(mine.span())) ++wrong;
        const PinnedBuffer buffer = memory->allocate(300);
        if (!memory->is_pinned(buffer.bytes())) ++wrong;
      }
    });
  }
  Anonymous others(8 * kPage);
  fill_random(others.span(), 11);
  const auto before = copy_of(others.span());
  for (int i = 0; i < 200; ++i) {
    memory->register_memory(others.span());
    memory->unregister_memory(others.data());
  }
  stop = true;
  for (auto& reader : readers) reader.join();  // bounded: `stop` is set
  EXPECT_EQ(wrong, 0U);
  EXPECT_TRUE(same(others.span(), before));
  memory->unregister_memory(mine.data());
}

TEST(MappingLine, FieldsAreReadAndRubbishIsNot) {
  const auto plain = parse_mapping("7f87acc30000-7f87acd30000 rw-p 00000000 00:00 0 ");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->begin, 0x7f87acc30000U);
  EXPECT_EQ(plain->end, 0x7f87acd30000U);
  EXPECT_EQ(plain->permissions, "rw-p");
  EXPECT_EQ(plain->inode, 0U);
  EXPECT_EQ(plain->name, "");
  const auto file = parse_mapping("7f87acd30000-7f87ad130000 rw-s 00001000 00:01 12024      /memfd:a window (deleted)");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->permissions, "rw-s");
  EXPECT_EQ(file->inode, 12024U);
  EXPECT_EQ(file->name, "/memfd:a window (deleted)");
  for (const char* rubbish : {"", "VmFlags: rd wr", "12-", "12-34", "12-34 rw 0 0 0", "12-34 rw-p 0 00:00 x"}) {
    EXPECT_FALSE(parse_mapping(rubbish)) << rubbish;
  }
}

}  // namespace
}  // namespace svp
