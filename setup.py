"Packaging: everything that can change stands in settings.ini"
import re, shutil
from configparser import ConfigParser
from pathlib import Path
from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

here = Path(__file__).parent
parser = ConfigParser(delimiters=['='])
parser.read(here/'settings.ini', encoding='utf8')
cfg = parser['DEFAULT']

extras = {extra: cfg[f'{extra}_requirements'].split()
          for extra in ('lab', 'dev', 'bench', 'studies')}

# A package index shows README.md away from its folder: figures, and links into the
# repository, would lead nowhere.
text = (here/'README.md').read_text(encoding='utf8')
text = re.sub(r'^\[?!\[[^\n]*\n\n\*Figure:[^\n]*\n\n', '', text, flags=re.M)
text = re.sub(r'\[([^]]*)\]\((?!https?:)[^)]*\)', r'\1', text)

# Without a user the book has no address.
home = f"https://github.com/{cfg['user']}/{cfg['repo']}" if cfg['user'] else None
site = f"https://{cfg['user']}.github.io/{cfg['repo']}/"
addresses = {'Source': home, 'Book': site} if home else {}

MODELS = 'everyday-en-de', 'everyday-de-en'

class Build(build_py):
    "Without `_modidx.py`, an index that only nbdev reads; with the models that ship"
    def find_package_modules(self, package, package_dir):
        modules = super().find_package_modules(package, package_dir)
        return [module for module in modules if module[1] != '_modidx']

    def run(self):
        super().run()
        for model in MODELS:
            target = Path(self.build_lib)/'transformer_nb/models'/model
            shutil.copytree(here/'nbs/models'/model, target, dirs_exist_ok=True)

setup(
    name=cfg['lib_name'],
    version=cfg['version'],
    description=cfg['description'],
    keywords=cfg['keywords'],
    author=cfg['author'],
    project_urls=addresses,
    license_expression='Apache-2.0',
    license_files=['LICENSE'],
    classifiers=cfg['classifiers'].strip().splitlines(),
    long_description=text,
    long_description_content_type='text/markdown',
    cmdclass=dict(build_py=Build),
    packages=find_packages(include=['transformer_nb*']),
    package_data={'transformer_nb': ['py.typed', '*.jsonl', '*.tsv', 'sentences.txt.gz',
                                     'playground/*', 'assignment/*']},
    exclude_package_data={'transformer_nb': ['playground/live*']}, # of the site alone
    python_requires='>=' + cfg['min_python'],
    install_requires=cfg['requirements'].split(),
    extras_require=extras,
    entry_points={'console_scripts': cfg['console_scripts'].split()},
)
