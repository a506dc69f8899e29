"""Where the book is published: `user`, `repo` and `branch` of settings.ini. README,
CITATION, the pages, the notebooks that they offer, the wheel and the cards of the models
take their addresses from here. Without a user there are no addresses, and no dead links."""
import re, subprocess
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path

COPIES = 'notebooks' # the branch that Colab reads: chapters that run alone

def settings(root):
    config = ConfigParser(delimiters=['='])
    config.read(Path(root, 'settings.ini'), encoding='utf8')
    return config['DEFAULT']

@dataclass(frozen=True)
class Repository:
    user: str
    name: str
    branch: str

    @property
    def url(self): return f'https://github.com/{self.user}/{self.name}'
    @property
    def site(self): return f'https://{self.user}.github.io/{self.name}/'
    def file(self, path): return f'{self.url}/blob/{self.branch}/{path}'
    def archive(self, commit): return f'{self.url}/archive/{commit}.zip'

    def colab(self, chapter):
        place = f'{self.user}/{self.name}/blob/{COPIES}/{chapter}.ipynb'
        return f'https://colab.research.google.com/github/{place}'

def repository(root):
    "None where settings.ini names no user"
    found = settings(root)
    if not found['user']: return None
    return Repository(found['user'], found['repo'], found['branch'])

def git(root, *args): # what git prints; empty where there is no repository
    done = subprocess.run(['git', *args], cwd=root, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ''

def citation(text, root):
    "CITATION.cff with version and addresses"
    text = re.sub(r'^(version|url|repository-code): .*\n', '', text, flags=re.M)
    lines = [f"version: {settings(root)['version']}"]
    home = repository(root)
    if home: lines += [f'url: {home.site}', f'repository-code: {home.url}']
    return re.sub(r'^(license: .*)$', '\n'.join([r'\1', *lines]), text, flags=re.M)
