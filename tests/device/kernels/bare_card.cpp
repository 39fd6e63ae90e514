// SPDX-License-Identifier: Apache-2.0
#include "tests/device/kernels/bare_card.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <utility>

#include "qemu/emulator_environment.hpp"
#include "tests/bounds.hpp"
#include "tests/support/process_end.hpp"

namespace kernel_test {
namespace {

// Guest memory. Region 0 begins with the whole RAM, so an offset from its start is an offset in the region as well.
constexpr std::uint64_t kRam = 0x80000000;
constexpr std::uint64_t kMailbox = 0x10000;
constexpr std::uint64_t kPageTable = 0x20000;
constexpr std::uint64_t kArguments = 0x30000;
constexpr std::uint64_t kCorrection = 0x31000;
constexpr std::uint64_t kStackEnd = 0x60000;
constexpr std::uint64_t kScratchpad = 0x200000;
// Each loaded image gets fresh memory: the emulator does not see that the host overwrote code it has translated.
constexpr std::uint64_t kAreas = 64 * wire::kMiB;
constexpr std::uint64_t kAreaCount = (BareCard::kTensors - kAreas) / wire::kExecutionAreaStride;
constexpr std::uint64_t kEnvironmentCall = 8;

constexpr std::uint64_t kLeafUserRwx = 0xDF;  // D A U X W R V

}  // namespace

struct BareCard::Mailbox {
  std::uint64_t request;
  std::uint64_t entry;
  std::uint64_t arguments;
  std::uint64_t stack_end;
  std::uint64_t satp;
  std::uint64_t cause;
  std::uint64_t pc;
  std::uint64_t value;
  std::uint64_t a0;
  std::uint64_t a7;
  std::uint64_t ticks;
  std::uint64_t marks;
  std::uint64_t last_mark;
  std::uint64_t barriers;
  std::uint64_t claims_left;
  std::uint64_t saved[2];
  std::uint64_t claimed[16];
};

std::vector<std::byte> read_image(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.size() < sizeof(wire::ImageHeader))
    throw std::runtime_error(path + " is not a kernel image: build the firmware");
  std::vector<std::byte> image(bytes.size());
  std::memcpy(image.data(), bytes.data(), bytes.size());
  return image;
}

BareCard::BareCard(const std::string& boot_elf) {
  memory_fd_ = memfd_create("bare_card", 0);  // inherited by the emulator
  if (memory_fd_ < 0 || ftruncate(memory_fd_, static_cast<off_t>(kRegionBytes)) != 0) {
    throw std::runtime_error("no memory file for the guest");
  }
  void* mapped = mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd_, 0);
  if (mapped == MAP_FAILED) throw std::runtime_error("guest memory can not be mapped");
  memory_ = static_cast<std::byte*>(mapped);
  start(boot_elf);
  auto* table = reinterpret_cast<std::uint64_t*>(memory_ + kPageTable);
  const std::uint64_t leaf = kRam >> 12 << 10 | kLeafUserRwx;
  table[kRam >> 30] = leaf;                    // text, stack and the rest where they are
  table[wire::region_window(0) >> 30] = leaf;  // region 0
  mailbox().satp = std::uint64_t{8} << 60 | (kRam + kPageTable) >> 12;
}

BareCard::~BareCard() {
  stop();
  munmap(memory_, kRegionBytes);
  close(memory_fd_);
}

void BareCard::start(const std::string& boot_elf) {
  const std::string backend =
      "memory-backend-file,id=ram,share=on,size=1G,mem-path=/proc/self/fd/" + std::to_string(memory_fd_);
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ < 0) throw std::runtime_error("can not start a process for the emulator");
  if (process_ > 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || dup2(null, 0) < 0) _exit(126);
  if (const auto allocator = qemu::emulator_allocator()) setenv("LD_PRELOAD", allocator->c_str(), 0);
  execlp("qemu-system-riscv64", "qemu-system-riscv64", "-M", "virt,aia=aplic-imsic,memory-backend=ram", "-cpu",
         "rv64,v=true,vlen=1024,elen=64,vext_spec=v1.0", "-accel", "tcg,tb-size=64", "-m", "1G", "-object",
         backend.c_str(), "-bios", "none", "-display", "none", "-serial", "none", "-monitor", "none", "-nodefaults",
         "-kernel", boot_elf.c_str(), static_cast<char*>(nullptr));
  _exit(127);
}

void BareCard::stop() {
  if (process_ <= 0) return;
  svp::test::kill_and_collect(std::exchange(process_, -1), test_bounds::kEmulator);
}

BareCard::Mailbox& BareCard::mailbox() { return *reinterpret_cast<Mailbox*>(memory_ + kMailbox); }

std::uint64_t BareCard::load(const std::string& name, std::span<const std::byte> image) {
  wire::ImageHeader header;
  std::memcpy(&header, image.data(), sizeof header);
  if (header.magic != wire::kImageMagic || header.image_bytes != image.size())
    throw std::runtime_error("bad kernel image");
  const auto [place, is_new] = loaded_.try_emplace(name, kAreas + loaded_.size() * wire::kExecutionAreaStride);
  const std::uint64_t text = place->second;
  if (is_new) {
    if (loaded_.size() > kAreaCount) throw std::runtime_error("too many images loaded into one bare card");
    std::memcpy(memory_ + text, image.data() + header.text_offset, header.text_bytes);
  }
  std::memcpy(memory_ + text + wire::kPoolOffset, image.data() + header.pool_offset, header.pool_bytes);
  return text;
}

void BareCard::write_correction(std::span<const wire::CorrectionSymbol> symbols) {
  wire::CorrectionHeader header{};
  header.magic = wire::kCorrectionMagic;
  header.mode = wire::AddressMode::Vf;
  header.symbol_count = static_cast<std::uint32_t>(symbols.size());
  header.region_count = 1;
  for (auto& region : header.region) region.region_id = wire::kNoRegion;
  header.region[0].region_id = kRegion;
  std::memcpy(memory_ + kCorrection, &header, sizeof header);
  std::ranges::copy(std::as_bytes(symbols), memory_ + kCorrection + sizeof header);
}

void BareCard::wait(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::atomic_ref<std::uint64_t> request(mailbox().request);
  while (request.load(std::memory_order_acquire) != 0) {
    if (waitpid(process_, nullptr, WNOHANG) == process_) {
      process_ = -1;
      throw std::runtime_error("the emulator ended by itself: is qemu-system-riscv64 10 installed?");
    }
    if (std::chrono::steady_clock::now() > end) {
      stop();
      throw std::runtime_error("the kernel did not end in time");
    }
    // bounded: a pause of the loop: the emulator needs the CPU more than this poll
    std::this_thread::sleep_for(test_bounds::kBriefLook);
  }
}

RunResult BareCard::run_core(const wire::ImageHeader& image, std::uint64_t text, unsigned core, unsigned cores,
                             std::uint64_t correction_bytes, std::chrono::milliseconds limit) {
  wire::KernelArguments arguments{};
  arguments.core_index = core;
  arguments.core_count = cores;
  arguments.correction_address = kRam + kCorrection;
  arguments.correction_bytes = correction_bytes;
  arguments.pool_address = kRam + text + wire::kPoolOffset;
  arguments.pool_bytes = image.pool_bytes;
  arguments.compute_entry = kRam + text + image.compute_entry;
  arguments.scratchpad_address = kRam + kScratchpad;
  arguments.scratchpad_bytes = wire::kScratchpadBytes;
  std::memcpy(memory_ + kArguments, &arguments, sizeof arguments);
  Mailbox& box = mailbox();
  box.entry = kRam + text + image.correction_entry;
  box.arguments = kRam + kArguments;
  box.stack_end = kRam + kStackEnd;
  // The last core gets all that the others have left. What they get differs from core to core.
  box.claims_left = core + 1 == cores ? ~std::uint64_t{0} : core % 3 + 1;
  std::atomic_ref<std::uint64_t>(box.request).store(1, std::memory_order_release);
  wait(limit);
  const std::uint64_t pc = box.pc - kRam - text;
  const bool exited = box.cause == kEnvironmentCall && box.a7 == static_cast<std::uint64_t>(wire::KernelCall::Exit);
  return {exited,    exited ? box.a0 : 0, box.cause,   pc < image.text_bytes ? pc : box.pc, box.value, box.ticks,
          box.marks, box.last_mark,       box.barriers};
}

RunResult BareCard::run(const std::string& name, std::span<const std::byte> image,
                        std::span<const wire::CorrectionSymbol> symbols, unsigned cores,
                        std::chrono::milliseconds limit) {
  const std::uint64_t text = load(name, image);
  write_correction(symbols);
  wire::ImageHeader header;
  std::memcpy(&header, image.data(), sizeof header);
  std::ranges::fill(mailbox().claimed, 0u);
  RunResult result{};
  std::uint64_t ticks = 0;
  for (unsigned core = 0; core < cores; ++core) {
    const std::uint64_t bytes =
        symbols.empty() ? 0 : wire::correction_bytes(static_cast<std::uint32_t>(symbols.size()));
    result = run_core(header, text, core, cores, bytes, limit);
    ticks += result.ticks;
    if (!result.exited || result.status != 0) break;
  }
  result.ticks = ticks;
  return result;
}

}  // namespace kernel_test
