// SPDX-License-Identifier: Apache-2.0
#include "host_driver/trace/trace_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "host_driver/base/unique_fd.hpp"

namespace svp::trace {

namespace {

ErrorInfo no_trace(const std::filesystem::path& path, const std::string& why) {
  return refused_by_driver(path.string(), path.string() + " is no trace: " + why,
                           "give a folder that SPYRE_TRACE named, or run `spyre trace -- COMMAND`");
}

// A copy of the file, so that a process that still writes it changes nothing under us.
Expected<std::vector<std::byte>> contents(const std::filesystem::path& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status{};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    return std::unexpected(no_trace(path, std::generic_category().message(errno)));
  }
  if (!S_ISREG(status.st_mode)) return std::unexpected(no_trace(path, "it is no file"));
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t have = 0;
  while (have < bytes.size()) {
    // bounded: a file, read to its end
    const ssize_t got = ::read(file.get(), bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

template <std::size_t N>
std::string text_of(const char (&text)[N]) {
  std::string copy(text, ::strnlen(text, N));
  std::ranges::replace_if(copy, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return copy;
}

// The file's bytes as they lie there: the atomic words are plain ones by now.
struct RawRecord {
  alignas(8) std::byte bytes[sizeof(Record)];
};
struct RawHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t record_bytes;
  std::uint64_t capacity;
  std::uint32_t process;
  std::uint32_t reserved;
  char program[64];
  std::uint64_t taken;
};
static_assert(sizeof(RawHeader) == sizeof(FileHeader));

template <typename T>
T field(const RawRecord& raw, std::size_t offset) {
  T value;
  std::memcpy(&value, raw.bytes + offset, sizeof value);
  return value;
}

Entry entry_of(const RawRecord& raw) {
  Entry entry;
  entry.kind = field<Kind>(raw, offsetof(Record, kind));
  entry.opcode = field<std::uint8_t>(raw, offsetof(Record, opcode));
  entry.outcome = field<std::uint8_t>(raw, offsetof(Record, outcome));
  entry.thread = field<std::uint32_t>(raw, offsetof(Record, thread));
  entry.stream = field<std::uint32_t>(raw, offsetof(Record, stream));
  entry.begin = field<std::uint64_t>(raw, offsetof(Record, begin));
  entry.end = field<std::uint64_t>(raw, offsetof(Record, end));
  entry.device_begin = field<std::uint64_t>(raw, offsetof(Record, device_begin));
  entry.device_end = field<std::uint64_t>(raw, offsetof(Record, device_end));
  entry.launch = field<std::uint64_t>(raw, offsetof(Record, launch));
  entry.tile = field<std::uint32_t>(raw, offsetof(Record, tile));
  entry.step = field<std::uint32_t>(raw, offsetof(Record, step));
  entry.sequence = field<std::uint64_t>(raw, offsetof(Record, sequence));
  entry.bytes = field<std::uint64_t>(raw, offsetof(Record, bytes));
  entry.card = field<std::uint32_t>(raw, offsetof(Record, card));
  entry.core = field<std::uint16_t>(raw, offsetof(Record, core));
  entry.status = field<std::uint16_t>(raw, offsetof(Record, status));
  char text[kTextBytes];
  std::memcpy(text, raw.bytes + offsetof(Record, text), kTextBytes);
  entry.text = text_of(text);
  return entry;
}

bool sound(const Entry& entry) {
  return entry.kind > Kind::None && entry.kind <= kLastKind && entry.begin <= entry.end &&
         entry.device_begin <= entry.device_end;
}

}  // namespace

Expected<ProcessTrace> read_file(const std::filesystem::path& path) {
  const auto bytes = contents(path);
  if (!bytes) return std::unexpected(bytes.error());
  RawHeader header{};
  if (bytes->size() < kFileHeaderBytes) return std::unexpected(no_trace(path, "it is too short"));
  std::memcpy(&header, bytes->data(), sizeof header);
  if (header.magic != kFileMagic) return std::unexpected(no_trace(path, "its first bytes are not those of a trace"));
  if (header.version != kFileVersion || header.record_bytes != sizeof(Record)) {
    return std::unexpected(no_trace(path, "it is of version " + std::to_string(header.version) + ", and " +
                                              std::to_string(kFileVersion) + " can be read"));
  }
  const std::uint64_t room = (bytes->size() - kFileHeaderBytes) / sizeof(Record);
  const std::uint64_t capacity = std::min(header.capacity, room);
  ProcessTrace trace;
  trace.process = header.process;
  trace.program = text_of(header.program);
  trace.lost = header.taken > capacity ? header.taken - capacity : 0;
  const std::uint64_t count = std::min(header.taken, capacity);
  for (std::uint64_t i = 0; i < count; ++i) {
    RawRecord raw;
    std::memcpy(raw.bytes, bytes->data() + kFileHeaderBytes + i * sizeof(Record), sizeof raw.bytes);
    if (field<std::uint32_t>(raw, offsetof(Record, written)) != 1) {
      ++trace.unwritten;
      continue;
    }
    Entry entry = entry_of(raw);
    if (sound(entry)) {
      trace.entries.push_back(std::move(entry));
    } else {
      ++trace.damaged;
    }
  }
  return trace;
}

Expected<std::vector<ProcessTrace>> read_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == kFileSuffix) paths.push_back(at->path());
  }
  if (error) return std::unexpected(no_trace(folder, error.message()));
  std::ranges::sort(paths);
  std::vector<ProcessTrace> traces;
  for (const auto& path : paths) {
    if (auto trace = read_file(path)) traces.push_back(*std::move(trace));
  }
  return traces;
}

}  // namespace svp::trace
