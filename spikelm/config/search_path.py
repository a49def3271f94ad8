"""Where Hydra looks for options: in conf/, and in the folders of the installed plugins."""

from __future__ import annotations

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from spikelm.config.plugins import plugins


class PluginOptions(SearchPathPlugin):
    """Hydra looks for options in the plugins' folders, too."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for plugin in plugins():
            if plugin.conf.is_dir():
                search_path.append(f"plugin {plugin.package}", plugin.conf.absolute().as_uri())


def register_search_path() -> None:
    """Tell Hydra, once."""
    hydra_plugins = Plugins.instance()
    if PluginOptions not in hydra_plugins.discover(SearchPathPlugin):
        hydra_plugins.register(PluginOptions)
