// SPDX-License-Identifier: Apache-2.0
// Where a user's long-lived cards are found: one folder, one sub-folder per card.
//
//   <runtime folder>/<card>/socket       of the broker, for tenants (broker_message.hpp)
//                          /management   of the broker, for the user whose card it is
//                          /card.json    CardDescription
//                          /console.log  what the firmware wrote
//                          /card.log     what the broker says, a line with its time for each change
//                          /gdb          where a debugger attaches, while one may (attach.hpp, offer_debugger)
//                          /lock         holds the broker's pid; locked (F_OFD_SETLK) by it for its lifetime
//
// The lock is the truth: a card whose lock is free has no broker any more, and its folder is removed by whoever lists
// or boots. Folders whose names start with a dot are private runtime folders (create_private) and follow the same rule.
// Files are reached relative to open directory descriptors, so neither the length of a path nor a renamed folder
// matters.
//
// Folders are the user's alone (0700). A card may be shared with a group (CardFolder::share_with): its members may look
// at the folder (0750), read card.json and connect to the tenant socket (0660); the management socket stays the user's.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/base/unique_fd.hpp"
#include "host_driver/discovery/card_description.hpp"

namespace svp {

inline constexpr unsigned kMaxCards = 8;  // of one runtime folder, at a time
inline constexpr std::size_t kMaxCardName = 32;
inline constexpr const char* kConsoleName = "console.log";
inline constexpr const char* kCardLogName = "card.log";
inline constexpr const char* kDebuggerName = "gdb";
inline constexpr const char* kRuntimeFolderVariable = "SPYRE_RUNTIME_DIR";

// [A-Za-z0-9_][A-Za-z0-9_-]{0,31}: a name that begins with - would be an option of every command. The error names the
// form.
Expected<void> check_card_name(std::string_view name);

// The folder of a card that this process serves: created, locked, and removed with its content when this object ends.
// Movable; not thread-safe.
class CardFolder {
 public:
  CardFolder(CardFolder&&) noexcept = default;
  CardFolder& operator=(CardFolder&&) noexcept;
  ~CardFolder();

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return folder_.get(); }
  // Replaces card.json in one step.
  Expected<void> write_description(const CardDescription& card) const;
  // Members of the group may look at this folder and the runtime folder around it, and read card.json. This process
  // must be in the group, or root.
  Expected<void> share_with(gid_t group);
  std::optional<gid_t> group() const { return group_; }
  // Removes the folder now instead of at the end. Idempotent.
  void remove();

 private:
  friend class RuntimeFolder;
  CardFolder(std::filesystem::path path, UniqueFd parent, UniqueFd folder, UniqueFd lock);

  std::filesystem::path path_;
  UniqueFd parent_;
  UniqueFd folder_;
  UniqueFd lock_;
  std::optional<gid_t> group_{};
};

// Thread-safe; movable.
class RuntimeFolder {
 public:
  // $SPYRE_RUNTIME_DIR, else $XDG_RUNTIME_DIR/spyre, else /tmp/spyre-<uid>. Looks at the environment only.
  static std::filesystem::path default_path();

  // The folder was named in the environment: the user knows whose it is.
  static bool is_named();

  // Opens `path`, and creates it with mode 0700 when it is absent (its parent must be there). Refused when it is a
  // symbolic link, belongs to somebody else, is open to others or may be written by a group.
  static Expected<RuntimeFolder> open(const std::filesystem::path& path = default_path());
  // To look at cards and attach to them. The same, but creates nothing, and a folder that was named (is_named()) may be
  // another user's, who shares cards with a group.
  static Expected<RuntimeFolder> visit(const std::filesystem::path& path = default_path());

  // A fresh folder of this kind inside this one, named ".<prefix>-<pid>", locked for its lifetime
  // and removed at its end when it is empty by then. Cards in it are neither listed nor counted here.
  Expected<RuntimeFolder> create_private(std::string_view prefix) const;

  RuntimeFolder(RuntimeFolder&&) noexcept = default;
  RuntimeFolder& operator=(RuntimeFolder&&) = delete;
  ~RuntimeFolder();

  const std::filesystem::path& path() const { return path_; }

  // The running cards, by name. Removes stale folders. A card that is still booting has no description yet and is left
  // out; one whose description cannot be read is an error that names it.
  Expected<std::vector<CardDescription>> cards() const;

  // Takes the name for this process. Errors: bad name; in use (with the pid that holds it); kMaxCards are running.
  Expected<CardFolder> create_card(std::string_view name) const;

  // Removes what brokers left that are gone. Returns how many folders that were.
  unsigned remove_stale() const;

 private:
  RuntimeFolder(std::filesystem::path path, UniqueFd folder, bool own)
      : path_(std::move(path)), folder_(std::move(folder)), own_(own) {}
  // Names of cards whose lock is held.
  std::vector<std::string> held_cards() const;
  // Nothing: somebody removed the folder meanwhile, or is about to.
  Expected<std::optional<CardFolder>> try_create(const std::string& name) const;

  std::filesystem::path path_;
  UniqueFd folder_;
  bool own_;
  UniqueFd lock_{};  // create_private() only
};

// The folder that a card is named by: `card` itself when it contains a '/', else the sub-folder of that name in the
// default runtime folder. Only makes the path (and checks the name); looks at no file.
Expected<std::filesystem::path> card_path(std::string_view card);

}  // namespace svp
