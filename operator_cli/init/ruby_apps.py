"""Recognizes Ruby applications: Rails, and everything else with a config.ru."""

import re

from operator_cli.init.procfile import apply_procfile
from operator_cli.init.proposal import HOST, WEB, Proposal
from operator_cli.init.source_files import SourceFiles

_GEM = re.compile(r"""^\s*gem\s+["']([\w-]+)["']""", re.MULTILINE)
_INSTALL = "bundle config set --local path vendor/bundle && bundle install"
# /srv/app is read-only for processes: Rails writes its log to the output, and its other files to /tmp.
_RAILS = "RAILS_ENV=production RAILS_LOG_TO_STDOUT=1 BOOTSNAP_CACHE_DIR=/tmp/bootsnap "


def find_ruby(files: SourceFiles) -> Proposal | None:
    """Return the proposal for a Ruby application; None if there is none."""
    if not files.has("Gemfile") or not files.has("config.ru", "bin/rails", "Procfile"):
        return None
    gems = set(_GEM.findall(files.read("Gemfile")))
    if "rails" in gems or files.has("bin/rails"):
        proposal, prefix = _describe_rails(files, gems), _RAILS
    else:
        proposal, prefix = _describe_rack(files, gems), "RACK_ENV=production "
    proposal.build.insert(0, _INSTALL)
    apply_procfile(files, proposal, prefix)
    return proposal


def _describe_rails(files: SourceFiles, gems: set[str]) -> Proposal:
    proposal = Proposal("Rails", found=["Gemfile with rails"])
    if gems & {"sprockets-rails", "propshaft", "sprockets"} or files.has("app/assets"):
        proposal.build.append(f"SECRET_KEY_BASE_DUMMY=1 {_RAILS}bundle exec rails assets:precompile")
    if files.has("db/migrate", "db/schema.rb", "db/structure.sql", "config/database.yml"):
        proposal.release.append(f"{_RAILS}bundle exec rails db:prepare")
    proposal.processes[WEB] = f"{_RAILS}exec bundle exec rails server -b {HOST} -p $PORT -P /tmp/server.pid"
    if "sidekiq" in gems:
        proposal.processes["worker"] = f"{_RAILS}exec bundle exec sidekiq"
    elif "solid_queue" in gems:
        proposal.processes["worker"] = f"{_RAILS}exec bundle exec rake solid_queue:start"
    routes = files.read("config/routes.rb")
    proposal.health = "/up" if "rails/health#show" in routes else files.find_health_path(["config/routes.rb"])
    if proposal.health is None:
        proposal.hints.append(
            'No health path was found: add `get "up" => "rails/health#show"` to config/routes.rb.'
        )
    proposal.hints.append(
        "Rails needs SECRET_KEY_BASE or RAILS_MASTER_KEY: `pharos variables set ENVIRONMENT SECRET_KEY_BASE=…`."
    )
    if "sqlite3" in gems and files.has("config/database.yml"):
        proposal.hints.append(
            "SQLite needs a writable folder: set the database in config/database.yml to "
            "<%= Dir.home %>/production.sqlite3."
        )
    return proposal


def _describe_rack(files: SourceFiles, gems: set[str]) -> Proposal:
    proposal = Proposal("Rack", found=["Gemfile", "config.ru"] if files.has("config.ru") else ["Gemfile"])
    if "puma" in gems:
        server = f"puma -b tcp://{HOST}:$PORT"
    else:
        server = f"rackup --host {HOST} --port $PORT"
        if "rackup" not in gems and "rack" not in gems:
            proposal.hints.append(
                "The web process needs rackup: add the gems rackup and puma to the Gemfile."
            )
    proposal.processes[WEB] = f"RACK_ENV=production exec bundle exec {server}"
    proposal.health = files.find_health_path(["config.ru", "app.rb", "config/routes.rb"])
    if proposal.health is None:
        proposal.hints.append(
            "No health path was found: add a route that returns 200, and name it under health."
        )
    return proposal
